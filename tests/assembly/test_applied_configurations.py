"""Another configuration is taken over in one step: who stays where, who comes and goes, and what is forgotten."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from kscheduler.api.core import Pod
from kscheduler.assembly import ApplyResult, Assembly
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import FeatureGates, parse_feature_gates
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.plugin import UNSIGNABLE
from kscheduler.framework.status import SUCCESS
from kscheduler.state.waiting_pods import PodAtPermit
from kscheduler.telemetry.series import Counter, Histograms
from tests.assembly.configurations import loaded, profile_tree, registry
from tests.builders import make_node, make_pod
from tests.scheduling.scheduler_in_memory import SchedulerInMemory

RED = profile_tree("red")


class World(SchedulerInMemory):
    """A scheduler and a node of two CPUs. The watch shows no Binding."""

    def __init__(self, config: LoadedConfig, nodes: int = 1) -> None:
        self.bound: dict[str, str] = {}
        super().__init__(config, registry())
        self.add(*(make_node(f"node-{number}", cpu="2") for number in range(nodes)), initial=True)

    def apply_binding(self, pod: Pod, node_name: str) -> None:
        self.bound[pod.metadata.name] = node_name

    def add_pod(self, name: str, profile: str = "red", cpu: str = "100m", **fields: Any) -> Pod:
        pod = make_pod(name, schedulerName=profile, requests={"cpu": cpu}, **fields)
        self.add(pod)
        return pod

    def apply(self, *profiles: Any, **fields: Any) -> ApplyResult:
        compiled = self.assembly.draft(loaded(*profiles, **fields))
        return self.assembly.apply(compiled, self.listed)


async def test_a_pod_that_a_filter_rejected_is_tried_again_when_the_filter_is_gone() -> None:
    world = World(loaded(profile_tree("red", plugins=["Only"])))
    world.add_pod("p")
    assert world.decide() is None
    assert world.where("p") == "unschedulable"
    assert world.apply(RED).placed_anew == 1
    assert world.where("p") == "backoff"
    assert world.assembly.queue.rejections() == {("Only", "red"): 1}, "until it is tried"
    attempt = world.decide()
    assert attempt is not None
    assert attempt.node_name == "node-0"


async def test_what_was_found_out_about_a_class_does_not_outlive_its_profiles() -> None:
    """Two pods that were alike are not, to a gate that reads a label; and nobody fits nowhere any more."""
    world = World(loaded(profile_tree("red", plugins=["Only"])))
    for name in ("p", "q"):
        world.add_pod(name)
    assert world.decide() is None
    assert world.decide() is None
    old = weakref.ref(world.assembly.scheduler.engines["red"])
    world.apply(RED)
    assert world.decide() is not None
    assert world.decide() is not None
    gc.collect()
    assert old() is None, "columns of the profiles before are kept"


async def test_a_pod_that_was_being_tried_gets_a_class_of_the_new_profiles() -> None:
    world = World(loaded(profile_tree("red", plugins=["Hold"])))
    world.add_pod("p", labels={"hold": "yes"})
    attempt = world.decide()
    assert attempt is not None
    before = world.assembly.classes.class_of(attempt.queued.pod)
    world.apply(profile_tree("red", plugins=["Only"], args={"Only": {"nodes": ["node-0"]}}))
    after = world.assembly.classes.class_of(attempt.queued.pod)
    assert before is not None
    assert after is not None
    assert after is not before
    assert after is world.assembly.classes.class_of(attempt.queued.pod)


async def test_a_pod_that_no_plugin_could_compare_gets_a_class_when_that_plugin_is_gone() -> None:
    world = World(loaded(RED))
    world.add_pod("p")
    found = world.assembly.queue.find("default/p")
    assert found is not None
    found[1].pod.signature = UNSIGNABLE
    assert world.assembly.classes.class_of(found[1].pod) is None
    world.apply(RED)
    assert world.assembly.classes.class_of(found[1].pod) is not None


async def test_an_attempt_that_fails_after_the_exchange_is_judged_by_the_new_hints() -> None:
    """It missed nothing: the exchange counts as an event that may help."""
    world = World(loaded(profile_tree("red", plugins=["Hold"])))
    world.add_pod("p", labels={"hold": "yes"})
    attempt = world.decide()
    assert attempt is not None
    assert attempt.held is not None
    world.apply(profile_tree("red", plugins=["Hold", "Door"]))
    attempt.held.reject("Hold", "no")
    assert not await world.assembly.scheduler.prepare(attempt)
    assert world.where("p") == "backoff", "parked until an event, though other plugins judge now"


async def test_who_waits_for_a_permit_plugin_that_is_gone_is_called_back() -> None:
    world = World(loaded(profile_tree("red", plugins=["Hold"])))
    world.add_pod("p", labels={"hold": "yes"})
    attempt = world.decide()
    assert attempt is not None
    assert world.apply(RED).called_back == 1
    assert not await world.assembly.scheduler.prepare(attempt)
    assert world.where("p") == "backoff"
    found = world.assembly.queue.find("default/p")
    assert found is not None
    assert "Hold is no longer called: the configuration has changed, or it is quarantined" in found[1].last_error
    assert world.assembly.cache.statistics().assumed_pods == 0


async def test_who_waits_for_a_permit_plugin_that_stays_goes_on_waiting() -> None:
    world = World(loaded(profile_tree("red", plugins=["Hold"])))
    world.add_pod("p", labels={"hold": "yes"})
    attempt = world.decide()
    assert attempt is not None
    assert world.apply(profile_tree("red", plugins=["Hold", "Door"])).called_back == 0
    assert attempt.held is not None
    attempt.held.allow("Hold")
    assert await world.assembly.scheduler.prepare(attempt)
    await world.assembly.scheduler.bind(attempt)
    assert world.bound == {"p": "node-0"}


async def test_who_waits_for_a_plugin_that_is_no_longer_called_at_permit_goes_on() -> None:
    world = World(loaded(profile_tree("red", plugins=["Hold"])))
    world.add_pod("p", labels={"hold": "yes"})
    attempt = world.decide()
    assert attempt is not None
    tree = profile_tree("red", plugins=["Hold"])
    tree["plugins"]["permit"] = {"disabled": [{"name": "Hold"}]}
    assert world.apply(tree).called_back == 0
    assert await world.assembly.scheduler.prepare(attempt)
    await world.assembly.scheduler.bind(attempt)
    assert world.bound == {"p": "node-0"}


async def test_members_that_a_gang_holds_at_permit_go_on_where_the_new_version_has_none() -> None:
    def grouped(version: str) -> LoadedConfig:
        return loaded(RED, gates=parse_feature_gates("GenericWorkload=true", version=version))

    world = World(grouped("1.37"))
    world.add_pod("p")
    attempt = world.decide()
    assert attempt is not None
    assert attempt.held is None
    held = PodAtPermit(attempt.queued.pod, "node-0", {"GangScheduling": 300.0}, {"GangScheduling": 300.0})
    world.assembly.waiting.hold(held)
    world.assembly.apply(world.assembly.draft(grouped("1.37")), world.listed)
    assert held.verdict is None
    assert world.assembly.apply(world.assembly.draft(grouped("1.38")), world.listed).called_back == 0
    assert held.verdict == SUCCESS


async def test_a_profile_that_goes_lets_its_pods_go_and_one_that_comes_takes_them_up() -> None:
    world = World(loaded(RED, profile_tree("green")))
    world.add_pod("mine")
    world.add_pod("parked", "green", cpu="9")
    assert world.decide() is not None
    assert world.decide() is None
    world.add_pod("nominated", "green", status={"nominatedNodeName": "node-0"})
    world.add_pod("theirs", "blue", status={"nominatedNodeName": "node-0"})
    assert list(world.assembly.cache.nominator.nominated()) == ["uid-of-nominated"]
    apply_result = world.apply(RED, profile_tree("blue"))
    assert (apply_result.profiles_added, apply_result.profiles_removed) == (["blue"], ["green"])
    assert (apply_result.let_go, apply_result.taken_up) == (2, 1)
    assert world.where("parked") == world.where("nominated") == ""
    assert world.where("theirs") == "active"
    assert list(world.assembly.cache.nominator.nominated()) == ["uid-of-theirs"]
    assert world.assembly.queue.rejections() == {}


async def test_the_series_of_a_profile_that_goes_are_gone_and_all_others_stay() -> None:
    world = World(loaded(RED, profile_tree("green")))
    observations = world.assembly.ports.observations

    def series(profile: str) -> set[str]:
        metrics: list[Counter | Histograms] = [*observations.counters, *observations.histograms]
        return {metric.series.name for metric in metrics for values in metric if profile in values}

    for profile in ("red", "green"):
        world.add_pod(f"fits-{profile}", profile)
        world.add_pod(f"does-not-{profile}", profile, cpu="9")
    for _ in range(4):
        attempt = world.decide()
        if attempt is not None:
            await world.assembly.scheduler.bind(attempt)
    names = {
        "scheduler_schedule_attempts_total",
        "scheduler_scheduling_attempt_duration_seconds",
        "scheduler_framework_extension_point_duration_seconds",
    }
    assert names <= series("green") == series("red")
    before = series("red"), len(observations.histograms)
    world.apply(RED)
    assert series("green") == set()
    assert (series("red"), len(observations.histograms)) == before


def of_version(version: str) -> LoadedConfig:
    return loaded(RED, gates=FeatureGates(version=version))


def swapping(name: str) -> dict[str, Any]:
    """A pod on the node, of whose containers one grows by what the other gives back."""
    small, large = ({"requests": {"cpu": cpu}} for cpu in ("100m", "900m"))
    statuses = [{"name": "a", "resources": small}, {"name": "b", "resources": large}]
    containers = [{"name": "a", "image": "x", "resources": large}, {"name": "b", "image": "x", "resources": small}]
    return {"name": name, "node": "node-0", "containers": containers, "status": {"containerStatuses": statuses}}


async def test_another_version_is_followed_by_plugins_cache_and_metrics_from_one_decision_to_the_next() -> None:
    world = World(of_version("1.36"))
    world.assembly.pod_handler.on_add(make_pod(**swapping("resized")), initial=True)
    used = world.assembly.cache.nodes.info(0).requested
    assert used["cpu"] == 1800
    for version, cpu, prefix in (("1.37", 1000, "Unscheduled"), ("1.36", 1800, "Unschedulable")):
        assembly = world.assembly
        assembly.apply(assembly.draft(of_version(version)), world.listed)
        assert assembly.cache.nodes.info(0).requested["cpu"] == cpu
        assert assembly.profiles["red"].behaviours.version == version
        world.add_pod(f"pod-{version.replace('.', '-')}")
        assert ("active", f"{prefix}PodAdd") in assembly.ports.observations.queue_incoming_pods


async def test_a_binding_of_a_profile_that_went_is_finished_and_a_failed_one_is_let_go() -> None:
    world = World(loaded(RED, profile_tree("green")))
    world.add_pod("a", "green")
    world.add_pod("b", "green")
    attempts = [world.decide(), world.decide()]
    world.apply(RED)
    first, second = attempts
    assert first is not None
    assert second is not None
    await world.assembly.scheduler.bind(first)
    assert world.bound == {first.queued.pod.name: "node-0"}
    world.assembly.scheduler.abandon(second, OSError("broken"))
    assert world.where(second.queued.pod.name) == ""
    assert world.assembly.queue.statistics().in_flight == 0


async def test_a_profile_that_comes_back_does_not_take_up_a_pod_that_is_still_being_bound() -> None:
    world = World(loaded(RED, profile_tree("green")))
    world.add_pod("p", "green")
    attempt = world.decide()
    world.apply(RED)
    assert world.apply(RED, profile_tree("green")).taken_up == 0
    assert world.where("p") == ""
    assert attempt is not None
    await world.assembly.scheduler.bind(attempt)
    assert world.bound == {"p": "node-0"}


async def test_gates_are_queried_anew() -> None:
    def doors(shut: str) -> Any:
        return profile_tree("red", plugins=["Door"], args={"Door": {"shut": shut}})

    world = World(loaded(doors("front")))
    world.add_pod("front", labels={"door": "front"})
    world.add_pod("back", labels={"door": "back"})
    assert (world.where("front"), world.where("back")) == ("gated", "active")
    world.apply(doors("back"))
    assert (world.where("front"), world.where("back")) == ("active", "gated")
    assert world.assembly.queue.rejections() == {("Door", "red"): 1}
    world.apply(RED)
    assert world.where("back") == "active"
    assert world.assembly.queue.rejections() == {("Door", "red"): 0} or not world.assembly.queue.rejections()


async def test_the_new_order_holds_for_pods_that_wait_already() -> None:
    world = World(loaded(RED))
    for name in ("b", "c", "a"):
        world.add_pod(name)
        await world.clock.advance(1.0)
    world.apply(profile_tree("red", sort="ByName"))
    order = [world.assembly.queue.pop_nowait(0.0) for _ in range(3)]
    assert [queued.pod.name for queued in order if queued is not None] == ["a", "b", "c"]


async def test_back_off_is_reckoned_anew() -> None:
    world = World(loaded(RED, podInitialBackoffSeconds=100, podMaxBackoffSeconds=100))
    world.add_pod("p", cpu="9")
    assert world.decide() is None
    await world.clock.advance(3.0)
    world.apply(RED, podInitialBackoffSeconds=1, podMaxBackoffSeconds=1)
    assert world.where("p") == "active"
    assert world.decide() is None
    world.apply(RED, podInitialBackoffSeconds=50, podMaxBackoffSeconds=50)
    found = world.assembly.queue.find("default/p")
    assert found is not None
    assert found[0] == "backoff"
    assert found[1].backoff_expiration - world.clock.time() > 40


async def test_a_bundle_is_reported_to_no_more_when_its_members_are_placed_anew() -> None:
    """The status writer holds the bundle's members as a live view."""
    world = World(loaded(RED))
    for name in ("p", "q", "r"):
        world.add_pod(name, cpu="9")
    for _ in range(3):
        assert world.decide() is None
    equivalence_groups = {
        id(bundle): bundle
        for key in [pod.key for pod in world.pods()]
        if (bundle := world.assembly.queue._sub_queues.equivalence_groups.of_pod(key))
    }
    (bundle,) = equivalence_groups.values()
    assert len(bundle.keys()) == 3
    world.apply(RED)
    assert len(bundle.keys()) == 0


@pytest.mark.parametrize("args", [None, {"some": "thing"}], ids=["a bug", "its arguments"])
async def test_a_factory_that_raises_leaves_all_as_it_is(args: Any) -> None:
    world = World(loaded(RED))
    world.add_pod("p")
    before = world.assembly.config, dict(world.assembly.profiles)
    with pytest.raises(ConfigError, match=r"profile red: plugin.*it cannot be built today"):
        world.apply(profile_tree("red", plugins=["Fragile"], args={"Fragile": args} if args else {}))
    assert (world.assembly.config, dict(world.assembly.profiles)) == before
    assert world.decide() is not None


async def test_a_pod_that_cannot_be_handled_keeps_no_other_from_being_taken_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(loaded(RED))
    for name in ("bad", "good"):
        world.add_pod(name, "green")
    handle = world.assembly.pod_handler.on_add

    def breaks(pod: Pod, initial: bool) -> None:
        if pod.metadata.name == "bad":
            raise RuntimeError("a bug")
        handle(pod, initial)

    monkeypatch.setattr(world.assembly.pod_handler, "on_add", breaks)
    assert world.apply(RED, profile_tree("green")).taken_up == 1
    assert world.where("good") == "active"


async def test_the_victims_of_a_preemptor_that_is_let_go_are_spared() -> None:
    world = World(loaded(RED, profile_tree("green")))
    pod = world.add_pod("p", "green")
    queried: list[str] = []
    world.assembly.evictions.call_off = queried.append  # type: ignore[assignment,method-assign]  # its effect is tested beside it
    world.apply(RED)
    assert queried == [pod.metadata.uid]


def test_an_exchange_needs_no_event_loop() -> None:
    """It never awaits, so no decision can come between."""
    assert not asyncio.iscoroutinefunction(Assembly.apply)
