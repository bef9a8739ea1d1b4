"""The handlers of all kinds that decide about placements."""

from collections.abc import Mapping
from typing import Any

from kscheduler.aio.clock import Clock
from kscheduler.api.kinds import NAMESPACES, NODES, PODS, Kind
from kscheduler.informers.informer import Handler
from kscheduler.scheduling.handlers.device_handlers import device_handlers
from kscheduler.scheduling.handlers.event_handlers import NodeHandler, PodHandler
from kscheduler.scheduling.handlers.namespace_handler import NamespaceHandler
from kscheduler.scheduling.handlers.pod_group_handler import PodGroupHandler
from kscheduler.scheduling.handlers.storage_handlers import storage_handlers
from kscheduler.scheduling.observations import Observations
from kscheduler.state.cache import Cache
from kscheduler.state.queue.scheduling_queue import SchedulingQueue


def handlers_of(
    pods: PodHandler,
    nodes: NodeHandler,
    cache: Cache,
    queue: SchedulingQueue,
    clock: Clock,
    observations: Observations,
) -> Mapping[Kind, Handler[Any]]:
    """The handlers, by kind, that turn watch events into changes of cache and queue."""
    seen = queue, clock, observations
    table = cache.pod_groups
    return {
        PODS: pods,
        NODES: nodes,
        NAMESPACES: NamespaceHandler(cache.counters, *seen),
        **storage_handlers(cache.volumes, *seen),
        **device_handlers(cache.devices, *seen),
        **{api.kind: PodGroupHandler(api, table, *seen) for api in table.apis},
    }
