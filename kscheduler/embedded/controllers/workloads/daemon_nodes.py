"""The pods of a DaemonSet by node: missing, surplus and outdated pods. Pure."""

from dataclasses import dataclass, field
from datetime import datetime

from kscheduler.api.machinery.api_errors import Object
from kscheduler.embedded.controllers.reading import (
    REVISION_LABEL,
    created,
    is_available,
    is_ready,
    is_terminating,
    node_of,
    phase_of,
    scaled,
)
from kscheduler.scenario.workload_pods import DaemonFit


@dataclass(slots=True)
class NodeChanges:
    """Pods to create and delete."""

    create_on: list[str] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    failed: list[Object] = field(default_factory=list)
    """Pods that have ended and are deleted, with an Event."""


@dataclass(frozen=True, slots=True)
class Daemons:
    """A DaemonSet, the nodes that it may run on, and its pods by node."""

    daemon_set: Object
    fits: dict[str, DaemonFit]
    pods: dict[str, list[Object]]
    revision_hash: str
    now: datetime

    @property
    def desired(self) -> int:
        """The number of nodes on which a pod should run."""
        return sum(fit.should_run for fit in self.fits.values())

    def is_current(self, pod: Object) -> bool:
        """Whether the pod has the current template."""
        labels = pod["metadata"].get("labels") or {}
        return bool(labels.get(REVISION_LABEL) == self.revision_hash)

    def is_available(self, pod: Object) -> bool:
        """Whether it has been ready for long enough."""
        return is_available(pod, int(self.daemon_set["spec"].get("minReadySeconds", 0)), self.now)

    def limits(self) -> tuple[int, int]:
        """(maxSurge, maxUnavailable); not both zero, since no update could proceed."""
        rolling = (self.daemon_set["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        surge = scaled(rolling.get("maxSurge", 0), self.desired, round_up=True)
        unavailable = scaled(rolling.get("maxUnavailable", 1), self.desired, round_up=True)
        return surge, 1 if surge == unavailable == 0 and self.desired else unavailable


def pods_by_node(pods: list[Object]) -> dict[str, list[Object]]:
    """Pods by the node that they are created for, bound or not, oldest first."""
    found: dict[str, list[Object]] = {}
    for pod in sorted(pods, key=created):
        found.setdefault(node_of(pod) or target_of(pod), []).append(pod)
    return found


def target_of(pod: Object) -> str:
    """The node that the pod's affinity names; empty when it names none."""
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in required.get("nodeSelectorTerms") or ():
        for match in term.get("matchFields") or ():
            if match.get("key") == "metadata.name" and len(match.get("values") or ()) == 1:
                return str(match["values"][0])
    return ""


def needed(daemons: Daemons) -> NodeChanges:
    """The changes for one pod on each eligible node and none elsewhere."""
    changes = NodeChanges()
    surge = daemons.limits()[0] > 0
    for name, fit in daemons.fits.items():
        pods = daemons.pods.get(name, [])
        alive = [pod for pod in pods if not is_terminating(pod)]
        if fit.should_run and not pods:
            changes.create_on.append(name)
        elif fit.may_stay:
            running = _without_ended(alive, changes)
            if surge:
                if not running and fit.should_run and not (len(alive) > len(running)):
                    changes.create_on.append(name)
                changes.delete += _surplus_of_surge(daemons, running)
            else:
                changes.delete += running[1:]
        else:
            changes.delete += alive
    return changes


def _without_ended(alive: list[Object], changes: NodeChanges) -> list[Object]:
    running = []
    for pod in alive:
        if phase_of(pod) in {"Failed", "Succeeded"}:
            changes.failed.append(pod)
            changes.delete.append(pod)
        else:
            running.append(pod)
    return running


def _surplus_of_surge(daemons: Daemons, running: list[Object]) -> list[Object]:
    """Surplus pods: all but an old pod and its successor; the old pod too, once the successor is available."""
    new = [pod for pod in running if daemons.is_current(pod)]
    old = [pod for pod in running if not daemons.is_current(pod)]
    surplus = [*new[1:], *old[1:]]
    if new and old and (not is_ready(old[0]) or daemons.is_available(new[0])):
        surplus.append(old[0])
    return surplus


def replacements(daemons: Daemons) -> NodeChanges:
    """The next step of a rolling update."""
    surge, unavailable = daemons.limits()
    return _surged(daemons, surge) if surge else _deleted(daemons, unavailable)


def _deleted(daemons: Daemons, most: int) -> NodeChanges:
    """Delete outdated pods: as many as may be unavailable, and all that are not available anyway."""
    changes = NodeChanges()
    candidates: list[Object] = []
    missing = 0
    for name, fit in daemons.fits.items():
        alive = [pod for pod in daemons.pods.get(name, ()) if not is_terminating(pod)]
        if not alive and not fit.should_run:
            continue
        if len(alive) != 1:
            missing += 1
        elif daemons.is_current(alive[0]):
            missing += not daemons.is_available(alive[0])
        elif daemons.is_available(alive[0]):
            candidates.append(alive[0])
        else:
            changes.delete.append(alive[0])
            missing += 1
    changes.delete += candidates[: max(most - missing, 0)]
    return changes


def _surged(daemons: Daemons, most: int) -> NodeChanges:
    """Create up to `most` successors of outdated pods; `needed` removes an old pod once its successor is available."""
    changes = NodeChanges()
    candidates: list[str] = []
    under_way = 0
    for name, fit in daemons.fits.items():
        alive = [pod for pod in daemons.pods.get(name, ()) if not is_terminating(pod)]
        old = [pod for pod in alive if not daemons.is_current(pod)]
        new = [pod for pod in alive if daemons.is_current(pod)]
        if old and new:
            under_way += not daemons.is_available(new[0])
        elif old and fit.should_run:
            (candidates if daemons.is_available(old[0]) else changes.create_on).append(name)
    changes.create_on += candidates[: max(most - under_way, 0)]
    return changes
