"""What is wrong with the objects that name levels of the topology, as the service tells about it.

An invalid regular expression or a cycle leaves a HyperNode without those members; a Topology may contradict another.
No group says so: it finds other domains, or too little room. So the log has a line per object, and again when something
else is wrong with it, for as many objects as are remembered; `/readyz?verbose` has the first, and how many there are.

A group that asks for a topology finds out what is wrong. So that an operator learns of it before, changed objects are
checked too, once nothing has changed from one look to the next: changes often come several together.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from kscheduler.telemetry.logs import get_logger

_log = get_logger(__name__)

# At one look; the others' turn comes at the next ones.
MAX_LOGGED: Final = 20
MAX_KNOWN: Final = 1_024


class TopologyReports:
    """Looks at the objects."""

    def __init__(
        self,
        problems: Callable[[], Mapping[tuple[str, str], str]],
        version: Callable[[], object],
        check: Callable[[], Awaitable[bool]],
    ) -> None:
        """`problems`: by resource and name of the object; as long as `version` is the same, they are. `check`: looks
        for them, and returns whether it could.
        """
        self._problems, self._version, self._check = problems, version, check
        self._logged: dict[tuple[str, str], str] = {}
        """By object what the log has said last."""
        self._seen: object = None
        """The version at the last look."""
        self._checked: object = None
        """The version of which everything has been checked."""
        self._to_log: deque[tuple[tuple[str, str], str]] = deque()
        """What the log has not said yet, by object, of the version at the last look."""
        self._sound: deque[tuple[str, str]] = deque()
        """Objects in the log that have no problem any more, the first to be forgotten first."""

    async def look(self) -> None:
        """Log what is new. Called each second; where nothing has changed it costs nothing."""
        version = self._version()
        if version != self._checked:
            if version == self._seen and await self._check():
                self._checked = version
            self._seen = version
            problems = self._problems()
            self._to_log = deque(each for each in problems.items() if self._logged.get(each[0]) != each[1])
            self._sound = deque(key for key in self._logged if key not in problems)
        self._log_some()

    def _log_some(self) -> None:
        logged = 0
        while self._to_log and logged < MAX_LOGGED:
            key, text = self._to_log.popleft()
            # Nodes come and go, and so do members that do not exist: what was logged stays known while there is room.
            if key not in self._logged and len(self._logged) >= MAX_KNOWN:
                if not self._sound:
                    continue  # `/readyz?verbose` counts it
                del self._logged[self._sound.popleft()]
            self._logged[key], logged = text, logged + 1
            _log.warning("topology_object_wrong", resource=key[0], object=key[1], reason=text)

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` if anything is wrong."""
        problems = self._problems()
        if problems:
            (resource, name), text = next(iter(problems.items()))
            more = f", and {len(problems) - 1} more objects" if len(problems) > 1 else ""
            yield f"{resource} {name}: {text}{more}"
