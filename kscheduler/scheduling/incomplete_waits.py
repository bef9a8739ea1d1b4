"""Pods whose pod group is not whole, as the service tells about them: a line per group, a note of `/readyz?verbose`.

No condition and no Event tells of them (kube-scheduler writes none), and nothing wakes them but the missing group. Pods
often come a moment before their group, so a group is told when it has been looked at twice, and again when it waits for
something else.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.logs import get_logger
from kscheduler.state.queue.group_queue import IncompleteGroup

_log = get_logger(__name__)

LONG_SECONDS: Final = 60.0
MOST_LOGGED: Final = 20
"""At one look; the others' turn comes at the next ones."""


@dataclass(slots=True)
class _Known:
    since: float
    logged_reason: str = ""
    """What the log has said last of it."""


class IncompleteWaits:
    """Looks at the groups with members that cannot be tried."""

    def __init__(
        self, groups: Callable[[], Iterable[IncompleteGroup]], version: Callable[[], object], now: Callable[[], float]
    ) -> None:
        """`version`: as long as it is the same, `groups` are. `now`: monotonic seconds."""
        self._groups, self._version, self._now = groups, version, now
        self._known: dict[GroupKey, _Known] = {}
        self._looked_at: object = None
        """The version of which everything has been told."""

    def look(self) -> None:
        """Log which groups are new here. Called each second; ten thousand groups at rest cost nothing."""
        version = self._version()
        if version == self._looked_at:
            return
        now, before, logged, is_all_told = self._now(), self._known, 0, True
        self._known = {}
        for group in self._groups():
            known = self._known[group.key] = before.get(group.key) or _Known(now)
            if known.logged_reason == group.why:
                continue
            if known.since < now and logged < MOST_LOGGED:
                known.logged_reason, logged = group.why, logged + 1
                _log.info("pod_group_incomplete", pod_group=group.key.text, pods=group.pods, reason=group.why)
            else:
                is_all_told = False
        self._looked_at = version if is_all_told else None

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` if pods have waited for long, with the group that has waited longest."""
        late = [group for group in self._groups() if self._seconds(group) >= LONG_SECONDS]
        if late:
            first = max(late, key=self._seconds)
            yield (
                f"{sum(group.pods for group in late)} pods of {len(late)} pod groups are not tried, "
                f"{first.key.text} for the longest time ({round(self._seconds(first))} s): {first.why}"
            )

    def _seconds(self, group: IncompleteGroup) -> float:
        known = self._known.get(group.key)
        return 0.0 if known is None else self._now() - known.since
