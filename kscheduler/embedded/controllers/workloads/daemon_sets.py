"""DaemonSets: a pod on each eligible node, created with affinity to the node and bound by the scheduler.

Failed pods are deleted and created again after a delay that doubles from 1 s to 15 min, per node.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial

from kscheduler.api.defaults.workloads import TEMPLATE_GENERATION
from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.resources import DAEMON_SETS, NODES, PODS, ServedResource
from kscheduler.embedded.controllers import reading
from kscheduler.embedded.controllers.engine.plan import Concerned, News, Plan
from kscheduler.embedded.controllers.engine.view import View
from kscheduler.embedded.controllers.reading import (
    REVISION_LABEL,
    compact,
    is_ready,
    is_terminating,
    pod_of,
    with_label,
)
from kscheduler.embedded.controllers.workloads import pod_changes
from kscheduler.embedded.controllers.workloads.daemon_nodes import (
    Daemons,
    NodeChanges,
    needed,
    pods_by_node,
    replacements,
)
from kscheduler.embedded.controllers.workloads.pod_changes import BURST, create_pod, delete_pod, text_of
from kscheduler.embedded.objects.store import Change, ChangeType, Key
from kscheduler.scenario.workload_pods import DaemonFit, bound_to, daemon_fit, tolerate_as_daemon

_COMPONENT = "daemonset-controller"
_FIRST_PAUSE_SECONDS, _LAST_PAUSE_SECONDS = 1.0, 900.0


class DaemonSetController:
    """Keeps a pod on each eligible node."""

    name = "daemonset-controller"

    def __init__(self) -> None:
        self._nodes = reading.NodeReader()
        self._pauses: dict[tuple[str, str], tuple[datetime, float]] = {}

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Sets, their pods, and nodes; heartbeats of nodes are ignored."""
        return {
            DAEMON_SETS: reading.itself,
            PODS: partial(reading.concerned_owner, DAEMON_SETS),
            NODES: self._concerned_by_node,
        }

    def _concerned_by_node(self, view: View, change: Change) -> Iterator[Key]:
        if change.type is ChangeType.DELETED:
            self._nodes.forget(change.key[1])
        if change.type is ChangeType.DELETED or _differs(change):
            for daemon_set in view.all(DAEMON_SETS):
                yield reading.key_of(daemon_set)

    def reconcile(self, view: View, key: Key) -> Plan:
        """Create, delete and replace pods, and update the status."""
        plan = Plan()
        daemon_set = view.get(DAEMON_SETS, key)
        if daemon_set is None or is_terminating(daemon_set):
            return plan  # a new revision would keep a foreground deletion waiting forever
        claimed = reading.claim(view, daemon_set, PODS)
        plan.add(*claimed.updates)
        versions = pod_changes.brought_up_to_date(plan, view, daemon_set)
        digest = reading.labels_of(versions.update)[pod_changes.HASH_LABEL]
        daemons = Daemons(daemon_set, self._fits(view, daemon_set), pods_by_node(claimed.values), digest, view.now)
        self._change(plan, daemons, needed(daemons))
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "RollingUpdate" and not plan_changes_pods(plan):
            self._change(plan, daemons, replacements(daemons))
        in_use = {reading.labels_of(pod).get(REVISION_LABEL, "") for pod in claimed.values}
        names = {pod_changes.name_of(revision) for revision in versions.revisions if _digest(revision) in in_use}
        pod_changes.cut(plan, daemon_set, versions, names)
        self._write_status(plan, daemons)
        return plan

    def _fits(self, view: View, daemon_set: Object) -> dict[str, DaemonFit]:
        pod = reading.decoded_pod(_daemon_pod(daemon_set, "", ""))
        found = {}
        for value in view.all(NODES):
            node = self._nodes.node(value)
            found[node.metadata.name] = daemon_fit(pod, node)
        return found

    def _change(self, plan: Plan, daemons: Daemons, changes: NodeChanges) -> None:
        daemon_set = daemons.daemon_set
        paused = [pod for pod in changes.failed if not self._may_delete(plan, daemons, pod)]
        for pod in changes.failed:
            if pod not in paused:
                node = pod["spec"].get("nodeName", "")
                text = f"Found failed daemon pod {text_of(pod)} on node {node}, will try to kill it"
                plan.add(News(daemon_set, _COMPONENT, "FailedDaemonPod", text, is_warning=True))
        for pod in [pod for pod in changes.delete if pod not in paused][:BURST]:
            plan.add(delete_pod(pod, daemon_set, _COMPONENT))
        for node in changes.create_on[:BURST]:
            plan.add(create_pod(_daemon_pod(daemon_set, node, daemons.revision_hash), daemon_set, _COMPONENT))
        if max(len(changes.create_on), len(changes.delete)) > BURST:
            plan.look_again(0)

    def _may_delete(self, plan: Plan, daemons: Daemons, pod: Object) -> bool:
        """Whether a failed pod's delay is over; a kubelet that rejects every pod must not cause an endless loop."""
        place = (daemons.daemon_set["metadata"]["uid"], pod["spec"].get("nodeName", ""))
        until, pause = self._pauses.get(place, (daemons.now, _FIRST_PAUSE_SECONDS))
        if daemons.now < until:
            plan.look_again((until - daemons.now).total_seconds())
            return False
        self._pauses[place] = daemons.now + timedelta(seconds=pause), min(pause * 2, _LAST_PAUSE_SECONDS)
        return True

    def _write_status(self, plan: Plan, daemons: Daemons) -> None:
        desired = current = misscheduled = ready = updated = available = 0
        for name, node_fit in daemons.fits.items():
            pods = daemons.pods.get(name, [])
            if not node_fit.should_run:
                misscheduled += bool(pods)
                continue
            desired += 1
            if pods:
                current += 1
                ready += is_ready(pods[0])
                available += daemons.is_available(pods[0])
                updated += daemons.is_current(pods[0])
        if ready != available:
            plan.look_again(float(daemons.daemon_set["spec"].get("minReadySeconds", 0)))
        status = {
            "currentNumberScheduled": current,
            "numberMisscheduled": misscheduled,
            "desiredNumberScheduled": desired,
            "numberReady": ready,
            "observedGeneration": daemons.daemon_set["metadata"].get("generation", 0),
            "updatedNumberScheduled": updated,
            "numberAvailable": available,
            "numberUnavailable": desired - available,
        }
        always = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")
        plan.set_status(DAEMON_SETS, daemons.daemon_set, compact(status, *always))


def plan_changes_pods(plan: Plan) -> bool:
    """Whether the plan creates or deletes pods already: a rolling update waits until that has taken effect."""
    return any(getattr(action, "resource", None) is PODS for action in plan.actions)


def _digest(revision: Object) -> str:
    return reading.labels_of(revision).get(pod_changes.HASH_LABEL, "")


def _differs(change: Change) -> bool:
    """Whether labels, taints or the cordon have changed."""
    if change.previous is None:
        return True
    old, new = change.previous.value, change.record.value
    return reading.labels_of(old) != reading.labels_of(new) or old.get("spec") != new.get("spec")


def _daemon_pod(daemon_set: Object, node: str, digest: str) -> Object:
    """The set's pod for a node, with affinity to the node and a daemon's tolerations."""
    template = daemon_set["spec"]["template"]
    if digest:
        template = with_label(template, REVISION_LABEL, digest)
        annotations = daemon_set["metadata"].get("annotations") or {}
        if TEMPLATE_GENERATION in annotations:
            template = with_label(template, "pod-template-generation", annotations[TEMPLATE_GENERATION])
    pod = pod_of(template, daemon_set)
    spec = pod["spec"]
    tolerate_as_daemon(spec)
    if node:
        spec["affinity"] = bound_to(node, spec.get("affinity") or {})
    return pod
