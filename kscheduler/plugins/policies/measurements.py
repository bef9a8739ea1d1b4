"""What nodes really use, as metrics-server or Prometheus has measured it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from kscheduler.api.quantity import QuantityError, milli_value, value
from kscheduler.config.durations import DurationError, parse_duration
from kscheduler.config.plugin_args import PrometheusUsage
from kscheduler.framework.cluster.client import ClusterClient
from kscheduler.framework.nodes.node_table import CPU_INDEX, MEMORY_INDEX, NodeTable
from kscheduler.framework.plugin import RefreshError
from kscheduler.plugins.policies.prometheus import queried

NODE_METRICS_PATH: Final = "/apis/metrics.k8s.io/v1beta1/nodes"
_NODES_AT_A_TIME: Final = 200


@dataclass(frozen=True, slots=True)
class Measurement:
    """A node's usage over a span of time."""

    cpu: int
    """Thousandths of a CPU."""
    memory: int
    """Bytes."""
    begun_at: float
    """When the span began, in seconds since 1970. A pod that was started later is not wholly in the figures."""
    ended_at: float


Measurements = Mapping[str, Measurement]
"""By node name."""


class _Metadata(msgspec.Struct):
    name: str = ""


class _NodeMetrics(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    timestamp: str = ""
    window: str = "0s"
    usage: dict[str, str] = {}


class _NodeMetricsList(msgspec.Struct):
    items: list[_NodeMetrics] = []


async def from_metrics_server(client: ClusterClient) -> Measurements:
    """What the aggregated API of metrics-server says now. Raises `RefreshError` and what the client raises."""
    return await parsed_metrics(await client.get(NODE_METRICS_PATH))


async def parsed_metrics(body: bytes) -> Measurements:
    """A NodeMetricsList. A node whose figures cannot be read is left out. Raises `RefreshError`.

    Reading the quantities of 5,000 nodes takes a twentieth of a second, so others get a turn in between.
    """
    try:
        listed = msgspec.json.decode(body, type=_NodeMetricsList)
    except msgspec.MsgspecError as mistake:
        raise RefreshError(f"{NODE_METRICS_PATH}: no list of NodeMetrics: {mistake}") from None
    found: dict[str, Measurement] = {}
    for place, item in enumerate(listed.items):
        if place % _NODES_AT_A_TIME == _NODES_AT_A_TIME - 1:
            await asyncio.sleep(0)
        try:
            ended = datetime.fromisoformat(item.timestamp).timestamp()
            begun = ended - max(0.0, parse_duration(item.window).seconds)
            cpu, memory = milli_value(item.usage["cpu"]), value(item.usage["memory"])
        except (ValueError, KeyError, QuantityError, DurationError):
            continue
        found[item.metadata.name] = Measurement(max(0, cpu), max(0, memory), begun, ended)
    if listed.items and not found:
        raise RefreshError(f"{NODE_METRICS_PATH}: {len(listed.items)} items, and none with usage and timestamp")
    return found


async def from_prometheus(source: PrometheusUsage, nodes: NodeTable) -> Measurements:
    """Two queries, each a fraction of what the nodes have. A node that only one of them names is left out.

    Raises `RefreshError`.
    """
    cpu = await queried(source, source.cpu_query, source.node_label)
    memory = await queried(source, source.memory_query, source.node_label)
    ended = min(cpu.taken_at, memory.taken_at)
    begun = ended - source.window.seconds
    found: dict[str, Measurement] = {}
    for name in cpu.keys() & memory.keys():
        row = nodes.row_of(name)
        if row >= 0:
            has_cpu, has_memory = nodes.allocatable[CPU_INDEX, row].item(), nodes.allocatable[MEMORY_INDEX, row].item()
            used = round(_share(cpu[name]) * has_cpu), round(_share(memory[name]) * has_memory)
            found[name] = Measurement(*used, begun, ended)
    if not found and len(nodes):
        raise RefreshError(f"the queries name no node of the cluster in the label {source.node_label}")
    return found


def _share(fraction: float) -> float:
    """Not beyond twice of what is there: a query that gives percent or bytes must not overflow a column."""
    return min(max(fraction, 0.0), 2.0)
