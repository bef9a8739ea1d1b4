"""Decide a scenario: the service's own cache, profiles and cycle, over objects instead of a live cluster.

The cycle scores only if more than one node is feasible, as kube-scheduler does. Here a single feasible node is scored,
too, because an explanation should show its points.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock, finishes_within
from kscheduler.api.core import Node, Pod
from kscheduler.api.names import honored
from kscheduler.api.quantity import QuantityError
from kscheduler.assembly import Ports, group_apis, profiles_over
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import DEFAULT_GATES, FeatureGates
from kscheduler.config.loader import LoadedConfig
from kscheduler.config.types import HASH
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.cluster.pod_groups import why_missing
from kscheduler.framework.plugin import REFRESH_SECONDS, RefreshPlugin
from kscheduler.framework.plugin_listener import NO_LISTENER, PluginListener
from kscheduler.framework.plugin_results import PartialAnswerError, text_of
from kscheduler.framework.plugin_time import PLUGIN_TIME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import Code, Fault, Status
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.listed_kinds import ListedKinds, OwnObjects, listed_budgets, listed_workloads
from kscheduler.scenario.scenario import ClusterObjects, Scenario
from kscheduler.scenario.unreadable import unreadable_quantity
from kscheduler.scheduling.cycle.schedule import schedule, score_feasible
from kscheduler.scheduling.extenders.extender_results import ExtenderResults
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.lifecycle_calls import call_refresh
from kscheduler.scheduling.runtime.points import FILTER
from kscheduler.state.cache import Cache
from kscheduler.state.devices.device_table import DeviceTable
from kscheduler.state.group_apis import GroupAPI


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a scenario: an error, a pod that is held back, or the record of its cycle."""

    scenario: Scenario
    error: str = ""
    """An internal error instead of a decision; all other fields are then empty."""
    is_held_back: bool = False
    """Whether the error is that a plugin is not called for the pod at this moment: it says nothing of the pod."""
    pre_enqueue: Status | None = None
    """Why the pod may not enter the queue."""
    record: SchedulingRecord | None = None
    """The record of the cycle."""
    profile: Profile | None = None
    """The profile that decided."""
    cache: Cache | None = None
    """The state cache of the scenario's cluster, unchanged since the decision, for questions about the record."""
    extender_results: ExtenderResults | None = None
    """What HTTP extenders have said; `None`: they were not asked, or the pod concerns none."""
    notes: tuple[str, ...] = ()
    """What the decision lacks: data of plugins' own that were not fetched, what filters that failed for some nodes
    would have said of them, points of score plugins that failed.
    """

    @property
    def tie_rule(self) -> str:
        """How one of several equal nodes was chosen: of `TIE_RULES`."""
        return HASH if self.profile is None else self.profile.tie_rule


class _FailedFilters:
    """Keeps what filters did that failed for some of the nodes: the record has only that they are rejected."""

    def __init__(self, listener: PluginListener) -> None:
        """`listener`: hears everything, too."""
        self._listener = listener
        self.texts: dict[str, str] = {}
        """By plugin, the first failure."""

    def failed(self, plugin: str, point: str, pod: PodInfo | None, failure: BaseException, then: str = "") -> None:
        """Implements `PluginListener`."""
        if point == FILTER.label and isinstance(failure, PartialAnswerError):
            self.texts.setdefault(plugin, f"plugin {plugin} failed for nodes, which are rejected: {text_of(failure)}")
        self._listener.failed(plugin, point, pod, failure, then)

    def slow(self, plugin: str, point: str, pod: PodInfo | None, seconds: float, nodes: int = 0) -> None:
        """Implements `PluginListener`."""
        self._listener.slow(plugin, point, pod, seconds, nodes)


@dataclass(slots=True)
class Prepared:
    """A scenario as the cycle reads it. Between this and the decision plugins may fetch data of their own."""

    scenario: Scenario
    cache: Cache
    pod: PodInfo
    profile: Profile | None
    listed: ListedKinds
    client: ClusterClient | None = None
    data: tuple[str, ...] | None = None
    """What came of fetching data, a note for each plugin that failed; `None`: nothing was fetched."""

    async def fetch(self, clock: Clock = REAL_CLOCK) -> None:
        """Read the kinds of plugins' own and let each plugin fetch its data once, as the service does all the time."""
        notes = await self.listed.read(self.client)
        fetching = _fetching(self.profile)
        self.data = (*notes, *[note for plugin in fetching if (note := await _fetched(plugin, clock))])

    @property
    def has_data_to_fetch(self) -> bool:
        """Whether a plugin has data of its own."""
        return bool(self.listed.unread or _fetching(self.profile))

    def decide(self, extender_results: ExtenderResults | None = None) -> Decision:
        """Judge the pod.

        `extender_results` as for `schedule`: then the record may say that extenders must be asked first.
        Without them it is as if no extender were configured.
        """
        profile = self.profile
        heard = _FailedFilters(NO_LISTENER if profile is None else profile.listener)
        decision = self._decide(extender_results, profile and replace(profile, listener=heard))
        left_out = [*heard.texts.values()]
        left_out += [each.message for each in decision.record.left_out] if decision.record is not None else []
        if self.data is not None:
            return replace(decision, notes=(*self.data, *left_out))
        unread = [f"{kind} were not read: only plugins read them" for kind in self.listed.unread]
        unfetched = [f"plugin {each.name}: data of its own were not fetched" for each in _fetching(self.profile)]
        return replace(decision, notes=(*unread, *unfetched, *left_out))

    def _decide(self, extender_results: ExtenderResults | None, profile: Profile | None) -> Decision:
        scenario, cache, pod = self.scenario, self.cache, self.pod
        if profile is None:
            name = scenario.pod.spec.scheduler_name
            return Decision(scenario, error=f'profile not found for scheduler name "{name}"')
        gate = profile.run_pre_enqueue(pod)
        if gate.is_rejected:
            return Decision(scenario, pre_enqueue=gate, profile=profile, cache=cache)
        if not gate.is_success:
            return Decision(scenario, error=gate.message, profile=profile, cache=cache)
        if pod.node_name:
            profile = replace(profile, post_filter=())  # the pod is on a node already: only judge that node
        record = schedule(profile, pod, cache, answers=extender_results)
        if record.status.code is Code.ERROR:
            error, is_held = record.status.message, record.status.fault is Fault.HELD_BACK
            return Decision(scenario, error, is_held, profile=profile, cache=cache, extender_results=extender_results)
        if record.node_name and not len(record.totals):
            _score_only_node(profile, record, cache)
        return Decision(scenario, record=record, profile=profile, cache=cache, extender_results=extender_results)


def prepare(
    scenario: Scenario,
    client: ClusterClient | None = None,
    own: OwnObjects | None = None,
    held: Cache | None = None,
) -> Prepared:
    """Read the scenario. Raises `ScenarioError` where an object or the configuration cannot be used.

    `client`: the API server, for plugins' own requests. `own`: objects of kinds that only plugins read. `held`: a cache
    that holds these objects already, and not the pod.
    """
    if scenario.config.configuration.honor_scheduler_name_annotation:
        scenario = _with_annotated_names(scenario)
    cache = held
    if cache is None:
        apis = group_apis(scenario.config)
        cache = cluster_cache(scenario.objects, scenario.pod, scenario.config.gates, scenario.where, apis)
        _nominate(cache, scenario)
    pod = _judged(scenario)
    if scenario.was_on_node:
        _give_up_devices(cache.devices, scenario.pod)
    listed = ListedKinds(scenario.objects, own)
    ports = msgspec.structs.replace(scenario_ports(scenario.objects), client=client, lister=listed.lister)
    return Prepared(scenario, cache, pod, profile_of(scenario, cache, scenario.plugins, ports), listed, client)


def prepare_over(scenario: Scenario, cache: Cache, profile: Profile | None) -> Prepared:
    """The same over a cache that holds the cluster already, with a profile whose plugins have their data.

    The pod is taken off its node for good: the cache is a copy. Raises `ScenarioError`.
    """
    pod = _judged(scenario)
    if cache.node_of(pod.uid):
        cache.lift_pod(pod.uid)
        _give_up_devices(cache.devices, scenario.pod)
    return Prepared(scenario, cache, pod, profile, ListedKinds(scenario.objects), data=())


def decide(scenario: Scenario) -> Decision:
    """Judge the scenario's pod without anything but the scenario. Raises `ScenarioError`."""
    return prepare(scenario).decide()


def _fetching(profile: Profile | None) -> list[RefreshPlugin]:
    plugins: Sequence[Any] = profile.instances if profile is not None else ()
    return [plugin for plugin in plugins if profile is not None and profile.traits[plugin.name].is_refreshed]


async def _fetched(plugin: RefreshPlugin, clock: Clock) -> str:
    """Fetch a plugin's data; returns a note if that failed."""
    try:
        if await finishes_within(call_refresh(plugin, NO_LISTENER), PLUGIN_TIME.at_most(REFRESH_SECONDS), clock):
            return ""
    except PluginFailure as failure:
        return f"plugin {plugin.name}: no data of its own: {failure.__cause__ or failure}"
    return f"plugin {plugin.name}: no data of its own: they did not come within {REFRESH_SECONDS:.0f} s"


def _with_annotated_names(scenario: Scenario) -> Scenario:
    """The scenario as the scheduler would see it where the old annotation names the scheduler."""
    pods = tuple(map(honored, scenario.objects.pods))
    objects = msgspec.structs.replace(scenario.objects, pods=pods)
    return replace(scenario, objects=objects, pod=honored(scenario.pod))


def without_nomination(decision: Decision) -> SchedulingRecord | None:
    """The record of the cycle without the pod's nomination; `None` if the nominated node was not tried alone.

    The nominated node is tried first and alone, so such a record says nothing about any other node.
    """
    record, profile, cache = decision.record, decision.profile, decision.cache
    if record is None or profile is None or cache is None or not record.only_nominated:
        return None
    pod = record.pod.pod
    free = PodInfo(msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name="")))
    other = schedule(profile, free, cache)
    if other.node_name and not len(other.totals):
        _score_only_node(profile, other, cache)
    return other


def pods_going(decision: Decision, node_name: str) -> tuple[str, ...]:
    """Keys of the pods of a node that are being deleted: a preemptor waits for its victims to be gone."""
    nodes = decision.cache.nodes if decision.cache is not None else None
    row = nodes.row_of(node_name) if nodes is not None else -1
    if nodes is None or row < 0:
        return ()
    return tuple(sorted(pod.key for pod in nodes.info(row).pods.values() if pod.is_terminating))


def cluster_cache(
    objects: ClusterObjects,
    pod: Pod | None,
    gates: FeatureGates = DEFAULT_GATES,
    where: str = "",
    apis: Sequence[GroupAPI] = (),
    serves: Collection[str] | None = None,
    missing: Mapping[str, str] = MappingProxyType({}),
    awaited: Mapping[str, str] = MappingProxyType({}),
) -> Cache:
    """The cluster in a state cache as the scheduler would fill it, without the judged pod. Raises `ScenarioError`.

    `serves`: the scheduler names of its profiles; other schedulers' pods are members of a group once they have a node.
    `missing`: how groups are missing, as `why_missing` takes it. `awaited`: by resource, why the objects that
    name levels of the topology are not known.
    """
    cache = Cache(
        gates.behaviours,
        apis,
        why_missing(missing),
        why_awaited=lambda kind: awaited.get(kind.resource, ""),
    )
    judged = "" if pod is None else pod.key
    for namespace in objects.namespaces:
        cache.counters.set_namespace(namespace)
    # An API server lists nodes by name, and that is the order in which nodes come to the scheduler.
    for index, node in sorted(enumerate(objects.nodes), key=lambda numbered: numbered[1].metadata.name):
        _add(cache, node, f"{where}: objects.nodes[{index}]")
    for stored in objects.storage():
        cache.volumes.put(stored)
    _add_devices(cache.devices, objects, gates)
    for index, other in enumerate(objects.pods):
        if other.spec.node_name and not other.is_terminal and other.key != judged:
            _add(cache, other, f"{where}: objects.pods[{index}]")
        elif apis and not other.is_terminal and (serves is None or other.spec.scheduler_name in serves):
            cache.pod_groups.add_member(PodInfo(other))
    for api in apis:
        for listed in objects.groups(api.kind):
            cache.pod_groups.put(api.definition_of(listed))
    return cache


def _give_up_devices(devices: DeviceTable, pod: Pod) -> None:
    """The claim for the pod's extended resources goes with its place, as its other requests do: it is made with both.

    Of a pod that waits it is left over from an earlier attempt, and in the way.
    """
    claim = devices.claims.for_extended_resources(pod)
    if claim is not None:
        devices.claims.delete(claim)


def _add_devices(devices: DeviceTable, objects: ClusterObjects, gates: FeatureGates) -> None:
    for device_class in objects.deviceclasses:
        devices.put_class(device_class)
    for published in objects.resourceslices:
        devices.put_slice(published)
    for claim in objects.resourceclaims:
        devices.claims.add(claim)
    if gates.enabled("DRADeviceTaintRules"):
        for rule in objects.devicetaintrules:
            devices.put_rule(rule)


def _nominate(cache: Cache, scenario: Scenario) -> None:
    """Nominate pending pods of these profiles to the node in their status: the scheduler would leave room for them.

    Raises `ScenarioError`.
    """
    scheduler_names = {profile.scheduler_name for profile in scenario.config.configuration.profiles}
    for index, other in enumerate(scenario.objects.pods):
        is_pending = not other.spec.node_name and not other.is_terminal and other.key != scenario.pod.key
        if is_pending and other.status.nominated_node_name and other.spec.scheduler_name in scheduler_names:
            try:
                cache.nominator.add(PodInfo(other))
            except QuantityError as problem:
                place = f"{scenario.where}: objects.pods[{index}]"
                raise ScenarioError(f"{place}.{unreadable_quantity(other) or problem} ({other.key})") from None


def _add(cache: Cache, added: Node | Pod, place: str) -> None:
    try:
        if isinstance(added, Node):
            cache.add_node(added)
        else:
            cache.add_pod(added)
    except QuantityError as problem:
        raise ScenarioError(f"{place}.{unreadable_quantity(added) or problem} ({added.key})") from None


def _judged(scenario: Scenario) -> PodInfo:
    """The pod with its requests worked out. An unreadable quantity is reported as the file's fault, not a plugin's."""
    pod = PodInfo(scenario.pod)
    try:
        _ = pod.requests, pod.nonzero_requests, pod.accounted
    except QuantityError as problem:
        text = unreadable_quantity(scenario.pod) or problem
        raise ScenarioError(f"{scenario.where}: pod.{text} ({pod.key})") from None
    return pod


def scenario_ports(objects: ClusterObjects) -> Ports:
    """Ports that read the listed services, controllers and budgets, and write nothing."""
    return Ports(workloads=listed_workloads(objects), budgets=listed_budgets(objects))


def profile_of(scenario: Scenario, cache: Cache, plugins: Registry | None, ports: Ports) -> Profile | None:
    """The scenario's profile over a cache; `None`: its configuration has none of that name. Raises `ScenarioError`."""
    profiles = profiles_at(scenario.where, cache, scenario.config, plugins, ports)
    return profiles.get(scenario.pod.spec.scheduler_name)


def profiles_at(where: str, cache: Cache, config: LoadedConfig, plugins: Registry | None, ports: Ports) -> Profiles:
    """The profiles of a configuration over a cache that was filled from `where`; `plugins`: `None` is the in-tree ones.

    Raises `ScenarioError` where a profile cannot be built.
    """
    try:
        return profiles_over(cache, config, registry() if plugins is None else plugins, ports)
    except ConfigError as problem:
        problems = "; ".join(str(each) for each in problem.problems)
        raise ScenarioError(f"{where}: config: {problems}") from None


def _score_only_node(profile: Profile, record: SchedulingRecord, cache: Cache) -> None:
    try:
        score_feasible(profile, record, cache.nodes)
    except PluginFailure:
        return  # the service would not have scored here, so a plugin that fails to score changes nothing
