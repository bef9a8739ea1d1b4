"""A status page over parts that run nowhere: a cache, a queue and a clock that tests move."""

from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.core import Pod
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.loader import default_configuration
from kscheduler.fragments.class_devices import ClassDevices
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.pending_pods import PendingPods
from kscheduler.scheduling.profile import device_counter, devices_on
from kscheduler.server.status_page.site import StatusPage
from kscheduler.server.status_page.sources import LiveQueryPort, PageSources, SchedulerStatus
from tests.builders import make_node, make_pod


class StoredPods(dict[str, Pod]):
    """The pods that the watch has shown, by key."""

    def keys(self) -> list[str]:  # type: ignore[override]  # a copy, as the informer's store has it
        return list(super().keys())


@dataclass
class PageScene:
    """The parts, and the page over them."""

    clock: VirtualClock
    assembly: Assembly
    pods: StoredPods
    sources: PageSources
    page: StatusPage = field(init=False)

    def __post_init__(self) -> None:
        self.page = StatusPage(self.sources)

    def add_node(self, name: str, zone: str = "a", **fields: object) -> None:
        self.assembly.cache.add_node(make_node(name, labels={"topology.kubernetes.io/zone": zone}, **fields))

    def add_pod(self, name: str, **fields: object) -> Pod:
        """A pod that the watch shows: on its node, or in the queue."""
        pod = make_pod(name, **fields)
        self.pods[pod.key] = pod
        self.assembly.pod_handler.on_add(pod, initial=False)
        return pod


STANDING: Final = SchedulerStatus(
    leader="",
    leads=True,
    is_scheduling=True,
    has_read=True,
    profiles=("kscheduler",),
    kubernetes="1.36",
    version="0.1.0",
    problems=(),
    notes=(),
)


def page_scene(answers: LiveQueryPort | None = None, standing: SchedulerStatus = STANDING) -> PageScene:
    """A page over an empty cluster."""
    clock, pods = VirtualClock(), StoredPods()
    assembly = Assembly(default_configuration("red"), registry(), replace(Ports(), pod_of=pods.get), clock)
    sources = PageSources(
        cache=assembly.cache,
        queue=assembly.queue,
        pods=pods,
        pending=PendingPods(assembly.queue, pods, lambda name: name in assembly.profiles).of,
        observations=assembly.ports.observations,
        recent=assembly.ports.log.recent,
        at_permit=assembly.waiting,
        binding=lambda: 0,
        awaited_events=assembly.queue.awaited_events,
        standing=lambda: standing,
        class_devices=ClassDevices(assembly.cache, lambda: device_counter(assembly.profiles.values())),
        devices_on=lambda info: devices_on(assembly.profiles.values(), info),
        overcommitted=dict,
        clock=clock,
        answers=answers,
    )
    return PageScene(clock, assembly, pods, sources)
