"""Decide a scenario: the service's own cache, profiles and cycle, over objects instead of a live cluster.

The cycle scores only where there is a choice, as kube-scheduler does. Here a single feasible node gets its points too:
who asks why wants to see them.
"""

from dataclasses import dataclass, replace

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.quantity import QuantityError
from kscheduler.assembly import Ports, profiles_over
from kscheduler.config.errors import ConfigError
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import Code, Status
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.cycle.schedule import schedule, score_feasible
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.state.cache import Cache
from kscheduler.whatif.budgets import listed_budgets
from kscheduler.whatif.scenario import ClusterObjects, Scenario, ScenarioError
from kscheduler.whatif.unreadable import unreadable_quantity
from kscheduler.whatif.workloads import listed_workloads


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of a scenario: an error, a pod that is held back, or a record of its cycle."""

    scenario: Scenario
    error: str = ""
    """An internal error rather than a decision; the rest is empty then."""
    pre_enqueue: Status | None = None
    """Why the pod may not enter the queue."""
    record: SchedulingRecord | None = None
    """How the cycle went."""
    profile: Profile | None = None
    """Who decided."""
    view: Cache | None = None
    """The cluster that it was decided over, unchanged since: further questions about the record are put to it."""


def decide(scenario: Scenario, plugins: Registry | None = None) -> Decision:
    """Judge the scenario's pod. Raises `ScenarioError` where an object or the configuration cannot be used."""
    view = cluster_view(scenario.objects, scenario.pod, scenario.where)
    _nominate(view, scenario)
    pod = _judged(scenario)
    name = scenario.pod.spec.scheduler_name
    profile = _profile(scenario, view, registry() if plugins is None else plugins)
    if profile is None:
        return Decision(scenario, error=f'profile not found for scheduler name "{name}"')
    gate = profile.run_pre_enqueue(pod)
    if gate.is_rejected:
        return Decision(scenario, pre_enqueue=gate, profile=profile, view=view)
    if not gate.is_success:
        return Decision(scenario, error=gate.message, profile=profile, view=view)
    if pod.node_name:
        profile = replace(profile, post_filter=())  # it is somewhere already: only the judgement is asked for
    record = schedule(profile, pod, view)
    if record.status.code is Code.ERROR:
        return Decision(scenario, error=record.status.message, profile=profile, view=view)
    if record.node_name and not len(record.totals):
        _score_the_only_one(profile, record, view)
    return Decision(scenario, record=record, profile=profile, view=view)


def without_nomination(decision: Decision) -> SchedulingRecord | None:
    """How the cycle would go if the pod were nominated to no node; `None` where it was not tried alone.

    The nominated node is tried first and alone, so such a record says nothing about any other node.
    """
    record, profile, view = decision.record, decision.profile, decision.view
    if record is None or profile is None or view is None or not record.only_nominated:
        return None
    pod = record.pod.pod
    free = PodInfo(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name="")))
    other = schedule(profile, free, view)
    if other.node_name and not len(other.totals):
        _score_the_only_one(profile, other, view)
    return other


def pods_going(decision: Decision, node_name: str) -> tuple[str, ...]:
    """Keys of the pods of a node that are being deleted: a preemptor waits for its victims to be gone."""
    nodes = decision.view.nodes if decision.view is not None else None
    row = nodes.row_of(node_name) if nodes is not None else -1
    if nodes is None or row < 0:
        return ()
    return tuple(sorted(pod.key for pod in nodes.info(row).pods.values() if pod.is_terminating))


def cluster_view(objects: ClusterObjects, pod: Pod, where: str = "") -> Cache:
    """The cluster as the scheduler's cache would hold it, without the pod to be judged. Raises `ScenarioError`."""
    view = Cache()
    for namespace in objects.namespaces:
        view.counters.set_namespace(namespace)
    for index, node in enumerate(objects.nodes):
        _add(view, node, f"{where}: objects.nodes[{index}]")
    for stored in objects.storage():
        view.volumes.put(stored)
    for index, other in enumerate(objects.pods):
        if other.spec.node_name and not other.is_terminal and other.key != pod.key:
            _add(view, other, f"{where}: objects.pods[{index}]")
    return view


def _nominate(view: Cache, scenario: Scenario) -> None:
    """Expect pending pods of these profiles where their status names a node: the scheduler would leave room for them.

    Raises `ScenarioError`.
    """
    ours = {profile.scheduler_name for profile in scenario.config.configuration.profiles}
    for index, other in enumerate(scenario.objects.pods):
        is_pending = not other.spec.node_name and not other.is_terminal and other.key != scenario.pod.key
        if is_pending and other.status.nominated_node_name and other.spec.scheduler_name in ours:
            try:
                view.nominator.add(PodInfo(other))
            except QuantityError as problem:
                place = f"{scenario.where}: objects.pods[{index}]"
                raise ScenarioError(f"{place}.{unreadable_quantity(other) or problem} ({other.key})") from None


def _add(view: Cache, added: Node | Pod, place: str) -> None:
    try:
        if isinstance(added, Node):
            view.add_node(added)
        else:
            view.add_pod(added)
    except QuantityError as problem:
        raise ScenarioError(f"{place}.{unreadable_quantity(added) or problem} ({added.key})") from None


def _judged(scenario: Scenario) -> PodInfo:
    """The pod, with what it asks for worked out: what cannot be read is the file's fault, not a plugin's."""
    pod = PodInfo(scenario.pod)
    try:
        _ = pod.requests, pod.nonzero_requests, pod.accounted
    except QuantityError as problem:
        told = unreadable_quantity(scenario.pod) or problem
        raise ScenarioError(f"{scenario.where}: pod.{told} ({pod.key})") from None
    return pod


def scenario_ports(objects: ClusterObjects) -> Ports:
    """Services, controllers and budgets as listed; nothing is written, nobody is told."""
    return Ports(workloads=listed_workloads(objects), budgets=listed_budgets(objects))


def _profile(scenario: Scenario, view: Cache, plugins: Registry) -> Profile | None:
    try:
        profiles = profiles_over(view, scenario.config, plugins, scenario_ports(scenario.objects))
    except ConfigError as problem:
        problems = "; ".join(str(one) for one in problem.problems)
        raise ScenarioError(f"{scenario.where}: config: {problems}") from None
    return profiles.get(scenario.pod.spec.scheduler_name)


def _score_the_only_one(profile: Profile, record: SchedulingRecord, view: Cache) -> None:
    try:
        score_feasible(profile, record, view.nodes)
    except PluginFailure:
        return  # the service would not have asked for these points, so a plugin that cannot give them changes nothing
