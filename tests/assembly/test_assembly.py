"""The assembly: what depends on gates and environment is decided here once; ports may lead nowhere."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.api.kinds import DEVICE_KINDS, NAMESPACES, NODES, PODS, STORAGE_KINDS
from kscheduler.assembly import Assembly, Ports, profiles_over
from kscheduler.assembly.assembled import EXPECTATION
from kscheduler.assembly.compiled_configuration import CLASSES_VARIABLE
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.framework.binding_annotations import NO_ANNOTATIONS
from kscheduler.framework.handle import Handle
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.registry import Registry
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.informers.informer import Informer
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.attempt.context import Attempt
from kscheduler.scheduling.attempt_events import PodRequeued
from kscheduler.scheduling.failure import UNSCHEDULABLE, Failure
from kscheduler.scheduling.observers import hears
from kscheduler.state.cache import Cache
from kscheduler.state.queue.sub_queues import UNSCHEDULABLE as UNSCHEDULABLE_PODS
from tests.builders import make_node, make_pod, pod_info


def assembled(ports: Ports | None = None, *, gates: str = "", nodes: int = 1, **more: Any) -> Assembly:
    """The default profile over some nodes."""
    config = default_configuration("kscheduler", parse_feature_gates(gates))
    assembly = Assembly(config, registry(), ports or Ports(), VirtualClock(), **more)
    for number in range(nodes):
        assembly.node_handler.on_add(make_node(f"node-{number}"), initial=True)
    return assembly


def tried(assembly: Assembly, pod: Pod) -> Attempt | None:
    """What becomes of a pod that comes and is tried."""
    assembly.pod_handler.on_add(pod, initial=False)
    queued = assembly.queue.pop_nowait(assembly.clock.time())
    assert queued is not None
    return assembly.scheduler.decide(queued)


def test_without_ports_a_pod_is_decided_on_and_its_binding_refused() -> None:
    pod = make_pod("p")
    assembly = assembled(Ports(pod_of=lambda _: pod))
    attempt = tried(assembly, pod)
    assert attempt is not None
    assert attempt.node_name == "node-0"
    asyncio.run(assembly.scheduler.bind(attempt))
    found = assembly.queue.find("default/p")
    assert found is not None
    assert found[0] == "backoff"
    assert "binding is disabled: default/p was not bound to node-0" in found[1].last_error
    assert assembly.cache.statistics().pods == 0


def test_without_ports_a_pod_that_fits_nowhere_is_let_go() -> None:
    """The pod is gone: `pod_of` finds nothing."""
    assembly = assembled(nodes=0)
    assert tried(assembly, make_pod("p")) is None
    assert assembly.queue.find("default/p") is None


class BindsAndCounts:
    """Implements `framework.handle.Writer`."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}

    async def bind(self, pod: Pod, node_name: str, annotations: Mapping[str, str] = NO_ANNOTATIONS) -> Status:
        self.bound[pod.key] = node_name
        return SUCCESS


def test_the_ports_are_what_its_plugins_write_to() -> None:
    binder = BindsAndCounts()
    assembly = assembled(Ports(binder=binder))
    attempt = tried(assembly, make_pod("p"))
    assert attempt is not None
    asyncio.run(assembly.scheduler.bind(attempt))
    assert binder.bound == {"default/p": "node-0"}


@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
def test_one_gate_says_whether_nodes_are_expected_and_pre_bind_is_called_back(is_on: bool) -> None:
    assembly = assembled(gates=f"{EXPECTATION}={str(is_on).lower()}")
    assert (assembly.in_pre_bind is not None) is is_on


@pytest.mark.parametrize("word", ["off", "", "on"])
def test_the_environment_switches_classes_off_altogether(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the queue, for verdicts that are shared, for hints and for what a cycle works out."""
    monkeypatch.setenv(CLASSES_VARIABLE, word)
    assembly = assembled()
    is_on = word != "off"
    pod = pod_info("p")
    assert (assembly.classes.class_of(pod) is not None) is is_on
    assert (assembly.classes.hints_alike(pod, frozenset(("NodeResourcesFit",))) is not None) is is_on
    assert bool(assembly.scheduler.engines) is is_on


def test_pre_enqueue_is_measured_and_arrivals_wake_a_worker() -> None:
    woken: list[str] = []
    assembly = assembled(Ports(wake_worker=lambda: woken.append("worker")))
    assembly.queue.add(pod_info("p"), assembly.clock.time())
    assert woken == ["worker"]
    observations = assembly.ports.observations
    assert observations.extension_points["PreEnqueue", "Success", "kscheduler"].count == 1
    assert sum(observations.queue_incoming_pods.values()) == 1


def test_who_hears_of_a_failure_can_ask_the_queue_where_the_pod_is_and_what_it_waits_for() -> None:
    heard: list[tuple[str, int]] = []

    class Hears:
        @hears(PodRequeued)
        def note(self, event: PodRequeued) -> None:
            found = event.queue.find(event.queued.key)
            awaited = event.queue.awaited_events("kscheduler", event.failure.plugins)
            heard.append((found[0] if found is not None else "", len(awaited)))

    pod = make_pod("p")
    assembly = assembled(Ports(pod_of=lambda _: pod, journal=Hears()))
    assembly.queue.add(PodInfo(pod), assembly.clock.time())
    queued = assembly.queue.pop_next(assembly.clock.time())
    assert isinstance(queued, QueuedPodInfo)
    rejected = Failure("no", UNSCHEDULABLE, frozenset(("NodeResourcesFit",)))
    assembly.failures.handle(queued, rejected, assembly.clock.time())
    ((place, awaited),) = heard
    assert place == UNSCHEDULABLE_PODS
    assert awaited > 1


def test_every_kind_that_changes_what_is_decided_has_a_handler() -> None:
    """Workloads and budgets are read from their stores when they are needed."""
    assembly = assembled()
    kinds = {PODS, NODES, NAMESPACES, *STORAGE_KINDS, *DEVICE_KINDS}
    assert set(assembly.handlers) == kinds
    informers = {kind: Informer[Any](kind) for kind in kinds}
    assembly.listen_to(informers)
    with pytest.raises(KeyError):
        assembly.listen_to({PODS: informers[PODS]})


class HandleKeeper(Registry):
    """The in-tree plugins; keeps the Handle that they are built with."""

    def __init__(self, refuses: str = "") -> None:
        known = registry()
        super().__init__({name: partial(known.build, name) for name in known.names()})
        self.handles: list[Handle] = []
        self._refuses = refuses

    def build(self, name: str, args: Any, handle: Handle) -> Plugin:
        self.handles.append(handle)
        if name == self._refuses:
            raise ValueError("not today")
        return super().build(name, args, handle)


def test_what_if_and_service_give_plugins_the_same_handle() -> None:
    """They are equal except for the clock; over copied state no pod waits, is evicted, or wakes by plugins' data."""
    cache, ports, config = Cache(), Ports(), default_configuration("kscheduler")
    live, copied = HandleKeeper(), HandleKeeper()
    one = Assembly(config, live, ports, VirtualClock(), cache=cache).profiles["kscheduler"]
    other = profiles_over(cache, config, copied, ports)["kscheduler"]
    assert [plugin.name for plugin in one.instances] == [plugin.name for plugin in other.instances]
    differing = {
        name for name in Handle.__struct_fields__ if getattr(live.handles[0], name) != getattr(copied.handles[0], name)
    }
    assert differing == {"waiting_pods", "evictions", "clock", "nodes_changed", "lister"}


def test_a_configuration_that_cannot_be_built_is_refused() -> None:
    config = default_configuration("kscheduler")
    with pytest.raises(ConfigError, match="not today"):
        Assembly(config, HandleKeeper("NodeName"), Ports(), VirtualClock())
    with pytest.raises(ConfigError, match="not today"):
        profiles_over(Cache(), config, HandleKeeper("NodeName"))
