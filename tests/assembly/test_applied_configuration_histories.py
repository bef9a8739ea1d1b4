"""Configurations are exchanged at any moment while pods come, wait, hold nodes and are bound.

Each pod is in exactly one place, decisions after an exchange are those of a scheduler that was started with the new
configuration on the same cluster, and nobody stays parked whom the new configuration lets through.
"""

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod, PodStatus
from kscheduler.api.kinds import NODES, PODS
from kscheduler.assembly import Assembly
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.pods.pod_info import PodInfo, placed
from kscheduler.framework.status import Status, error
from kscheduler.in_memory.cluster import APIRequest, InMemoryCluster
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.state.queue.scheduling_queue import GATED
from tests.assembly.configurations import NAMES, configurations, loaded, profile_tree, registry
from tests.builders import make_node, make_pod
from tests.effort import example_count

TAINT = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}


class UnseenBindings(InMemoryCluster):
    """The watch shows a Binding when the test does; `refused`: the next one is, with this."""

    refused: Status | None = None

    def __init__(self) -> None:
        super().__init__()
        self.before = self._refuse

    async def _refuse(self, _request: APIRequest, _pod: Pod) -> Status | None:
        return self.refused

    def apply_binding(self, pod: Pod, node_name: str) -> None:
        """It is accepted."""


class ExchangedConfigurations(RuleBasedStateMachine):
    """A scheduler whose steps are taken one by one; attempts rest between decision and binding."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock()
        self.cluster = UnseenBindings()
        self.attempts: list[Attempt] = []
        self.serial = 0

    def teardown(self) -> None:
        self.loop.close()

    @initialize(config=configurations(), nodes=st.integers(0, 2))
    def start(self, config: LoadedConfig, nodes: int) -> None:
        self.assembly = self.assembled(config)
        self.assembly.listen_to(self.cluster.listeners)
        for number in range(nodes):
            self.add_node(number, is_tainted=False)

    def assembled(self, config: LoadedConfig) -> Assembly:
        async def build() -> Assembly:  # evictions hold a semaphore, which belongs to a loop
            return Assembly(config, registry(), self.cluster.ports(), self.clock, has_classes=True)

        return self.loop.run_until_complete(build())

    # --- what happens in a cluster ------------------------------------------------------------------------------------

    @rule(number=st.integers(0, 2), is_tainted=st.booleans())
    def add_node(self, number: int, is_tainted: bool) -> None:
        self.cluster.put(NODES, make_node(f"node-{number}", cpu="2", spec=TAINT if is_tainted else {}))

    @rule(
        profile=st.sampled_from((*NAMES, "somebody-else")),
        cpu=st.sampled_from(("0", "500m", "1500m", "3")),
        labels=st.dictionaries(st.sampled_from(("door", "hold")), st.sampled_from(("front", "back")), max_size=2),
        priority=st.integers(0, 1),
        nominated=st.sampled_from(("", "", "", "node-0")),
        copies=st.integers(1, 3),
    )
    def add_pods(
        self, profile: str, cpu: str, labels: dict[str, str], priority: int, nominated: str, copies: int
    ) -> None:
        for _ in range(copies):
            self.serial += 1
            more: dict[str, Any] = {"status": {"nominatedNodeName": nominated}} if nominated else {}
            pod = make_pod(
                f"pod-{self.serial}",
                schedulerName=profile,
                requests={"cpu": cpu},
                labels=labels,
                priority=priority,
                **more,
            )
            self.cluster.put(PODS, pod)

    @precondition(lambda self: self.cluster.pods())
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        self.cluster.remove(PODS, data.draw(st.sampled_from(sorted(pod.key for pod in self.cluster.pods()))))

    @rule(seconds=st.sampled_from((1.0, 7.0, 60.0)))
    def time_passes(self, seconds: float) -> None:
        self.loop.run_until_complete(self.clock.advance(seconds))
        self.assembly.queue.flush_backoff(self.clock.time())

    # --- what the scheduler does --------------------------------------------------------------------------------------

    @rule(times=st.integers(1, 5))
    def decide(self, times: int) -> None:
        for _ in range(times):
            queued = self.assembly.queue.pop_nowait(self.clock.time())
            if queued is None:
                return
            attempt = self.assembly.scheduler.decide(queued)
            if attempt is not None:
                self.attempts.append(attempt)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), is_bound=st.booleans())
    def finish(self, data: st.DataObject, is_bound: bool) -> None:
        """An attempt goes on, if nothing holds its pod; else its holder lets it go or rejects it."""
        attempt = data.draw(st.sampled_from(self.attempts))
        held = attempt.held
        if held is not None and held.verdict is None:
            if is_bound:
                held.allow("Hold")
            else:
                held.reject("Hold", "no")
        self.attempts.remove(attempt)
        self.cluster.refused = None if is_bound else error("the API server is away")
        self.loop.run_until_complete(self.carry_out(attempt))
        old = self.cluster.pod_of(attempt.queued.key)
        if attempt.is_bound and old is not None:
            bare = msgspec.structs.replace(old, status=PodStatus())
            self.cluster.put(PODS, placed(bare, attempt.node_name))

    async def carry_out(self, attempt: Attempt) -> None:
        scheduler = self.assembly.scheduler
        if not scheduler.must_wait(attempt) or await scheduler.prepare(attempt):
            await scheduler.bind(attempt)

    # --- what this is about -------------------------------------------------------------------------------------------

    @rule(config=configurations())
    def exchange(self, config: LoadedConfig) -> None:
        self.assembly.apply(self.assembly.draft(config), self.cluster.listed)
        assert self.assembly.config is config
        self.decisions_are_those_of_a_new_scheduler()
        parked = {queued.key for queued in self.assembly.queue.parked() if not queued.gating_plugin}
        assert not parked, "what rejected them may be gone"

    @rule(broken=st.sampled_from(NAMES), others=configurations(), args=st.sampled_from((None, {"some": "thing"})))
    def refuse(self, broken: str, others: LoadedConfig, args: Any) -> None:
        """A plugin that cannot be built leaves everything as it is."""
        before = self.assembly.config, dict(self.assembly.profiles), self.places()
        tree = profile_tree(broken, plugins=["Fragile"], args={"Fragile": args} if args else {})
        (bad,) = loaded(tree).configuration.profiles
        kept = tuple(one for one in others.configuration.profiles if one.scheduler_name != broken)
        configuration = others.configuration
        mixed = replace(others, configuration=type(configuration)(profiles=(*kept, bad)))
        with pytest.raises(ConfigError, match="it cannot be built today"):
            self.assembly.draft(mixed)
        assert (self.assembly.config, dict(self.assembly.profiles), self.places()) == before

    def places(self) -> dict[str, str]:
        found = {pod.key: self.assembly.queue.find(pod.key) for pod in self.cluster.pods()}
        return {key: place[0] for key, place in found.items() if place is not None}

    @invariant()
    def each_pod_is_in_exactly_one_place(self) -> None:
        if not hasattr(self, "assembly"):
            return
        queue, cache = self.assembly.queue, self.assembly.cache
        trying = {attempt.queued.pod.uid for attempt in self.attempts}
        queued = 0
        for pod in self.cluster.pods():
            key, uid, found = pod.key, pod.metadata.uid, queue.find(pod.key)
            queued += found is not None
            if pod.spec.node_name or uid in trying:
                assert found is None, f"{key} is queued beside its node or its attempt"
                assert cache.node_of(uid), key
            else:
                is_ours = pod.spec.scheduler_name in self.assembly.profiles
                assert (found is not None) is is_ours, f"{key}: {found}"
                assert not cache.node_of(uid), key
        sizes = queue.statistics()
        assert sizes.active + sizes.backoff + sizes.unschedulable + sizes.gated == queued
        assert sizes.in_flight <= len(trying)
        rejected: Counter[tuple[str, str]] = Counter()
        for found in filter(None, [queue.find(pod.key) for pod in self.cluster.pods()]):
            rejectors = found[1].unschedulable_plugins | found[1].pending_plugins
            rejected.update((plugin, found[1].pod.pod.spec.scheduler_name) for plugin in rejectors)
        assert queue.rejections() == dict(rejected), "the gauge scheduler_unschedulable_pods"
        ours = set(cache.nominator.nominated())
        pending = {pod.metadata.uid for pod in self.cluster.pods() if pod.spec.scheduler_name in self.assembly.profiles}
        assert ours <= pending | trying

    @invariant()
    def nobody_is_parked_subject_a_new_scheduler_would_let_through(self) -> None:
        if not hasattr(self, "assembly") or any(map(_leaves_a_nomination, self.attempts)):
            return
        new = self.new_scheduler()
        for queued in self.assembly.queue.parked():
            profile = new.profiles[queued.pod.pod.spec.scheduler_name]
            bare = PodInfo(queued.pod.pod)
            if queued.gating_plugin:
                assert not profile.run_pre_enqueue(bare).is_success, queued.key
            elif "Hold" not in queued.unschedulable_plugins:  # somebody rejected it, whom nobody can ask again
                assert not schedule(profile, bare, new.cache).status.is_success, queued.key

    def decisions_are_those_of_a_new_scheduler(self) -> None:
        new = self.new_scheduler()
        for pod in self.cluster.pods():
            name = pod.spec.scheduler_name
            found = self.assembly.queue.find(pod.key)
            if found is None or found[0] == GATED:
                continue
            engine = self.assembly.scheduler.engines[name]
            for _ in range(2):  # the second time from what the first has taught
                ours = schedule(self.assembly.profiles[name], found[1].pod, self.assembly.cache, engine=engine)
                theirs = schedule(new.profiles[name], PodInfo(pod), new.cache)
                assert (ours.node_name, ours.message) == (theirs.node_name, theirs.message)

    def new_scheduler(self) -> Assembly:
        """One that was started with the configuration in force, on this cluster."""
        new = self.assembled(self.assembly.config)
        for node in self.cluster.store(NODES).list():
            new.node_handler.on_add(node, initial=True)
        for pod in self.cluster.pods():
            if pod.spec.node_name:
                new.pod_handler.on_add(pod, initial=True)
        for attempt in self.attempts:
            if (
                self.cluster.pod_of(attempt.queued.key) is None
            ):  # its end has given the room back, whatever the attempt still does
                continue
            new.cache.assume_pod(PodInfo(attempt.queued.pod.pod), attempt.node_name)
        nominator = self.assembly.cache.nominator
        for uid in nominator.nominated():
            found = nominator.nomination(uid)
            assert found is not None
            new.cache.nominator.nominate(PodInfo(found[1].pod), found[0])
        return new


def _leaves_a_nomination(attempt: Attempt) -> bool:
    """Whether room was left for its pod on another node: others are told of that room when it is bound, or gone."""
    return attempt.queued.pod.pod.status.nominated_node_name not in ("", attempt.node_name)


TestExchangedConfigurations = ExchangedConfigurations.TestCase
TestExchangedConfigurations.settings = settings(
    max_examples=example_count(25), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
