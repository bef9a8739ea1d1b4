"""What is wrong with the objects that name levels of the topology, as the service tells about it.

An invalid regular expression or a cycle leaves a HyperNode without those members; a Topology may contradict another.
No group says so: it finds other domains, or too little room. So the log has a line per object, and again when something
else is wrong with it, for as many objects as are remembered; `/readyz?verbose` has the first, and how many there are.

A group that asks for a topology finds out what is wrong. That an operator learns of it before, the objects are checked
when they have changed: once they have stayed as they are from one look to the next, as several often come together.
"""

from collections.abc import Callable, Iterable, Mapping
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
        check: Callable[[], bool],
    ) -> None:
        """`problems`: by resource and name of the object; as long as `version` is the same, they are. `check`: looks
        for them, and returns whether it could.
        """
        self._problems, self._version, self._check = problems, version, check
        self._logged: dict[tuple[str, str], str] = {}
        """By object what the log has said last."""
        self._seen: object = None
        """The version at the last look."""
        self._looked_at: object = None
        """The version of which everything has been checked and logged."""

    def look(self) -> None:
        """Log what is new. Called each second; where nothing has changed it costs nothing."""
        version = self._version()
        if version == self._looked_at:
            return
        is_checked = version == self._seen and self._check()
        self._seen = version
        problems, logged = self._problems(), 0
        sound = iter([key for key in self._logged if key not in problems])
        for key, text in problems.items():
            if self._logged.get(key) == text:
                continue
            if logged == MAX_LOGGED:
                return
            # Nodes come and go, and so do members that do not exist: what was logged stays known while there is room.
            if key not in self._logged and len(self._logged) >= MAX_KNOWN:
                forgotten = next(sound, None)
                if forgotten is None:
                    continue  # `/readyz?verbose` counts it
                del self._logged[forgotten]
            self._logged[key], logged = text, logged + 1
            _log.warning("topology_object_wrong", resource=key[0], object=key[1], reason=text)
        if is_checked:
            self._looked_at = version

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` if anything is wrong."""
        problems = self._problems()
        if problems:
            (resource, name), text = next(iter(problems.items()))
            more = f", and {len(problems) - 1} more objects" if len(problems) > 1 else ""
            yield f"{resource} {name}: {text}{more}"
