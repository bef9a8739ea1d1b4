"""Pods that have waited for long, as the service tells about them: at Permit, or for their pod group to be whole."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.state.queue.group_queue import IncompleteGroup
from kscheduler.state.waiting_pods import PodAtPermit, WaitingPodTable
from kscheduler.telemetry.logs import get_logger

# Pods that wait for Permit, as the service tells about them: a log line, a note of `/readyz?verbose`, numbers.
#
# A pod waits for Permit because some plugin has said so, and its condition does not tell: kube-scheduler writes none. A
# gang that is never complete, or a plugin that has forgotten the pod, would look like a scheduler that does nothing. So
# where pods have waited for a plugin for ten seconds, the log says it once, until nobody waits for it so long any more.

_log = get_logger(__name__)

LONG_SECONDS: Final = 10.0
# Plugins that are counted as 0: configurations that come and go may name ever new ones.
MAX_KNOWN: Final = 100


class PluginWaits(msgspec.Struct, frozen=True):
    """The pods that wait for one plugin."""

    pods: int
    longest: PodAtPermit


class PermitWaits:
    """Looks at the waiting pods, by plugin that has not let them through."""

    def __init__(self, waiting: WaitingPodTable, now: Callable[[], float]) -> None:
        """`now`: monotonic seconds."""
        self._waiting = waiting
        self._now = now
        self._since: dict[str, float] = {}
        """By plugin of which the log has said that pods wait for it: when the first of them began."""
        self._known: dict[str, int] = {}

    def pods_by_plugin(self) -> Mapping[str, int]:
        """How many pods wait for each plugin; one for which pods have waited stays, with 0: a graph falls to zero."""
        self._known = dict.fromkeys(self._known, 0) if len(self._known) < MAX_KNOWN else {}
        self._known.update((plugin, waits.pods) for plugin, waits in self._by_plugin().items())
        return self._known

    def by_pod(self) -> Mapping[str, Mapping[str, Any]]:
        """By UID, for the dump of the queue: the node, for how long, and in how many seconds who rejects the pod."""
        now = self._now()
        return {
            held.pod.uid: {
                "node": held.node_name,
                "seconds": round(now - held.since, 3),
                "rejected_in_seconds": {
                    plugin: round(deadline - now, 3) for plugin, deadline in sorted(held.deadlines.items())
                },
            }
            for held in self._waiting.all()
        }

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` for each plugin for which a pod has been waiting for long."""
        for plugin, waits in self._by_plugin().items():
            held, seconds = waits.longest, self._now() - waits.longest.since
            if seconds >= LONG_SECONDS:
                pods = "1 pod waits" if waits.pods == 1 else f"{waits.pods} pods wait"
                which = f"pod {held.pod.key} on node {held.node_name}"
                longest = "" if waits.pods == 1 else " longest"
                yield f"{pods} at Permit for plugin {plugin}, {which}{longest}: {round(seconds)} s"

    def look(self) -> None:
        """Log for which plugins pods have been waiting for long, and where that is over. Called each second."""
        if not self._since and not len(self._waiting):
            return
        now, by_plugin = self._now(), self._by_plugin()
        for plugin, waits in by_plugin.items():
            held = waits.longest
            if plugin not in self._since and now - held.since >= LONG_SECONDS:
                self._since[plugin] = held.since
                until = round(held.deadlines[plugin] - now, 3)
                fields = {"pods": waits.pods, "pod": held.pod.key, "node": held.node_name}
                seconds = round(now - held.since, 3)
                _log.info("pods_wait_at_permit", plugin=plugin, **fields, seconds=seconds, rejected_in_seconds=until)
        for plugin, since in list(self._since.items()):
            if plugin not in by_plugin or now - by_plugin[plugin].longest.since < LONG_SECONDS:
                del self._since[plugin]
                _log.info("pods_wait_at_permit_no_more", plugin=plugin, seconds=round(now - since, 3))

    def _by_plugin(self) -> dict[str, PluginWaits]:
        """The pods in the order in which they began: the first of a plugin has waited longest."""
        found: dict[str, PluginWaits] = {}
        for held in self._waiting.all():
            for plugin in held.pending_plugins if held.verdict is None else ():
                known = found.get(plugin)
                found[plugin] = PluginWaits(1, held) if known is None else PluginWaits(known.pods + 1, known.longest)
        return dict(sorted(found.items()))


# Pods whose pod group is not whole, as the service tells about them: a line per group, a note of `/readyz?verbose`.
#
# No condition and no Event tells of them (kube-scheduler writes none), and nothing wakes them but the missing group.
# Pods often come a moment before their group, so a group is told when it has been looked at twice, and again when it
# waits for something else.

LONG_INCOMPLETE_SECONDS: Final = 60.0
# At one look; the others' turn comes at the next ones.
MAX_LOGGED: Final = 20


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
        now, before, logged, is_all_reported = self._now(), self._known, 0, True
        self._known = {}
        for group in self._groups():
            known = self._known[group.key] = before.get(group.key) or _Known(now)
            if known.logged_reason == group.why:
                continue
            if known.since < now and logged < MAX_LOGGED:
                known.logged_reason, logged = group.why, logged + 1
                _log.info("pod_group_incomplete", pod_group=group.key.text, pods=group.pods, reason=group.why)
            else:
                is_all_reported = False
        self._looked_at = version if is_all_reported else None

    def notes(self) -> Iterable[str]:
        """A line for `/readyz?verbose` if pods have waited for long, with the group that has waited longest."""
        late = [group for group in self._groups() if self._seconds(group) >= LONG_INCOMPLETE_SECONDS]
        if late:
            first = max(late, key=self._seconds)
            yield (
                f"{sum(group.pods for group in late)} pods of {len(late)} pod groups are not tried, "
                f"{first.key.text} for the longest time ({round(self._seconds(first))} s): {first.why}"
            )

    def _seconds(self, group: IncompleteGroup) -> float:
        known = self._known.get(group.key)
        return 0.0 if known is None else self._now() - known.since
