"""VolumeBinding from the claim to the end of the wait: what the metrics are told, and how soon a change is noticed."""

import asyncio
from dataclasses import dataclass, field

from msgspec.structs import replace

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status
from kscheduler.plugins.storage.volume_binding.plugin import VolumeBinding
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod

META = {"name": "data", "namespace": "default", "uid": "claim", "resourceVersion": "1"}
USER = make_pod("user", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])


class AcceptsAll:
    """Answers every write with the next version, which no watch ever shows."""

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume:
        return volume

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        return replace(claim, metadata=replace(claim.metadata, resource_version="2"))


@dataclass
class Stage:
    """A node, a claim whose volume is to be made for it, and the plugin."""

    cache: Cache = field(default_factory=Cache)
    clock: VirtualClock = field(default_factory=VirtualClock)
    observed: list[tuple[str, float, bool]] = field(default_factory=list)
    cycle: CycleState = field(default_factory=CycleState)
    pod: PodInfo = field(default_factory=lambda: PodInfo(USER))

    def __post_init__(self) -> None:
        self.cache.add_node(make_node("node"))
        storage_class = {"metadata": {"name": "fast"}, "provisioner": "csi.test"}
        waits = {"volumeBindingMode": "WaitForFirstConsumer"}
        self.cache.volumes.put(convert(storage_class | waits, StorageClass))
        self.cache.volumes.put(convert({"metadata": META, "spec": {"storageClassName": "fast"}}, PersistentVolumeClaim))
        handle = Handle(
            self.cache,
            None,  # type: ignore[arg-type]  # the plugin writes no pods
            None,  # type: ignore[arg-type]  # and knows of no waiting ones
            volumes=self.cache.volumes,
            volume_writer=AcceptsAll(),
            clock=self.clock,
            observe_volumes=self._observe,
        )
        self.plugin = VolumeBinding(None, handle)

    def _observe(self, operation: str, seconds: float, *, is_ok: bool) -> None:
        self.observed.append((operation, seconds, is_ok))

    def reserve(self) -> Status:
        """The steps of a decision for the node."""
        nodes = self.cache.nodes
        assert self.plugin.pre_filter(self.cycle, self.pod, nodes).status.is_success
        self.plugin.filter(self.cycle, self.pod, nodes, nodes.rows())
        self.cache.assume_pod(self.pod, "node")
        return self.plugin.reserve(self.cycle, self.pod, "node")


async def test_each_step_is_observed_under_kube_schedulers_word() -> None:
    stage = Stage()
    assert stage.reserve().is_success
    binding = asyncio.ensure_future(stage.plugin.pre_bind(stage.cycle, stage.pod, "node"))
    async with asyncio.timeout(5):
        await stage.clock.next_sleep()
    await stage.clock.advance(601)
    assert "context deadline exceeded" in (await binding).message
    assert stage.observed == [("predicate", 0.0, True), ("assume", 0.0, True), ("bind", 600.0, False)]


async def test_a_step_that_is_refused_is_observed_as_failed() -> None:
    stage = Stage()
    nodes = stage.cache.nodes
    stage.plugin.pre_filter(stage.cycle, stage.pod, nodes)
    stage.plugin.filter(stage.cycle, stage.pod, nodes, nodes.rows()[:0])
    assert not stage.plugin.reserve(stage.cycle, stage.pod, "node").is_success, "Filter has not seen the node"
    assert stage.observed[-1] == ("assume", 0.0, False)


async def test_a_change_that_brings_no_event_of_a_volume_is_noticed_within_a_second() -> None:
    stage = Stage()
    stage.reserve()
    binding = asyncio.ensure_future(stage.plugin.pre_bind(stage.cycle, stage.pod, "node"))
    async with asyncio.timeout(5):
        await stage.clock.next_sleep()
    stage.cache.remove_node("node")
    await stage.clock.advance(0.9)
    assert not binding.done()
    await stage.clock.advance(0.1)
    assert binding.done()
    assert "node" in (await binding).message
    assert stage.observed[-1] == ("bind", 1.0, False)
