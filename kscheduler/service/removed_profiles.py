"""Profiles that this process served until a changed configuration removed them, and the pods that still name them.

A pod of such a profile stays Pending, and nothing at it says why. The removal may be meant, where another scheduler
has taken the name over, or be a slip in a file. So it is a warning, and as long as pods without a node name the
profile, a note of `/readyz?verbose` and a metric tell how many.

Limits: the names are forgotten with the process; counting looks at every pod, so it is done only while there are names,
and every ten seconds.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.bounded import RecentlyUsed
from kscheduler.telemetry.logs import get_logger

_log = get_logger("config")

# Names that are remembered: a file may rename a profile again and again.
MAX_NAMES: Final = 16
COUNT_SECONDS: Final = 10.0
_ADVICE: Final = (
    "put the profile back if this was not meant, and they are taken up at once; or see that another scheduler serves it"
)


class RemovedProfiles:
    """The names, and how many pods wait for each."""

    def __init__(
        self, served: Container[str], pods: Callable[[], Iterable[Pod]], monotonic: Callable[[], float]
    ) -> None:
        """`served`: the names that are served now. `pods`: all that the watch has shown."""
        self._served, self._pods, self._monotonic = served, pods, monotonic
        self._names: RecentlyUsed[str, bool] = RecentlyUsed(MAX_NAMES)
        self._waiting: Mapping[str, int] = {}
        self._counted_at = 0.0

    def note_removed(self, names: Iterable[str]) -> None:
        """A configuration without these profiles is in force. Call it also where none went: one may be back."""
        removed = tuple(names)
        for name in removed:
            self._names[name] = True
        for name in [name for name in self._names if name in self._served]:
            del self._names[name]
        self._count()
        for name in removed:
            _log.warning("profile_removed", profile=name, pods=self._waiting.get(name, 0), advice=_ADVICE)

    def look(self) -> None:
        """Count again if it is time. Called each second."""
        if self._names and self._monotonic() - self._counted_at >= COUNT_SECONDS:
            self._count()

    def waiting(self) -> Mapping[str, int]:
        """Pods without a node by the removed profile that they name, as of the last count; without zeros."""
        return self._waiting

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` for each profile that pods wait for."""
        for name, count in sorted(self._waiting.items()):
            pods = "1 pod without a node names" if count == 1 else f"{count} pods without a node name"
            yield f'profile "{name}" was removed from the configuration, and {pods} it: {_ADVICE}'

    def _count(self) -> None:
        self._counted_at = self._monotonic()
        names = self._names
        self._waiting = (
            Counter(
                pod.spec.scheduler_name
                for pod in self._pods()
                if pod.spec.scheduler_name in names and not pod.spec.node_name and not pod.is_terminal
            )
            if names
            else {}
        )
