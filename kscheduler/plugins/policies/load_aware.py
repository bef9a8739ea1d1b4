"""LoadAware: prefer nodes that really use little, not only those of which little is requested.

    estimate = usage when it was measured + requests of pods that the measurement cannot show yet
    used     = trust * estimate + (1 - trust) * requests of all pods           per resource
    points   = what would be left, in percent, as NodeResourcesFit's LeastAllocated counts it

Trust follows the measurement's age: whole up to `freshFor`, none from `staleAfter` on, in a straight line between. A
node without a measurement is judged by requests, so with metrics-server away the points are those of LeastAllocated.

Herding: measurements are tens of seconds old, and an idle node would get every pod until the next one. So a pod counts
with its requests on top of the usage until it has run for the whole span of a measurement: first twice for a moment,
never not at all. A pod without requests counts with what scoring presumes (100m, 200Mi).

Ages are looked at when data are fetched, each `refreshInterval`, also where that fails: between two refreshes a node's
points depend on the node and its pods only, so they are kept, and worked out again for nodes that changed.
"""

import asyncio
from collections.abc import Hashable, Mapping
from typing import Final, NamedTuple

import numpy as np

from kscheduler.api.quantity import MAX_INT64
from kscheduler.config.plugin_args import DEFAULT_RESOURCES, LoadAwareArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import NodeTable, Rows, Scores
from kscheduler.framework.nodes.pod_columns import started_at
from kscheduler.framework.plugin import Plugin, RefreshError, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU
from kscheduler.framework.rules.scoring import Usage, least_allocated, usage
from kscheduler.plugins.policies.measurements import (
    Measurement,
    Measurements,
    from_metrics_server,
    from_prometheus,
)

# Trust moves in twentieths, so that age alone does not change every node at every refresh.
TRUST_STEPS: Final = 20
# Amounts beyond this (280 petabytes) are taken for this, so that sums of twentieths fit into 64 bits.
_MOST: Final = MAX_INT64 // (2 * TRUST_STEPS)
# Estimates are worked out in the background, this many between two turns of the event loop.
_NODES_AT_A_TIME: Final = 200


class _Load(NamedTuple):
    """What is known of a node's usage."""

    measurement: Measurement
    trust: int
    """0 to `TRUST_STEPS`."""


class _Estimate(NamedTuple):
    """What a node uses, with the pods that are there now."""

    load: _Load
    pods_version: int
    cpu: int
    memory: int


class LoadAware(Plugin):
    """Points by real usage where it is known and recent, by requests where it is not."""

    name = "LoadAware"
    depends_on = (Source.ROW,)
    reads_spec_only = True

    def __init__(self, args: LoadAwareArgs | None, handle: Handle) -> None:
        self._args = args or LoadAwareArgs()
        self._handle = handle
        self._resources = [
            (resource.name, resource.weight or 1) for resource in self._args.resources or DEFAULT_RESOURCES
        ]
        self.refresh_interval = self._args.refresh_interval.seconds
        self._measured: Measurements = {}
        self._loads: Mapping[str, _Load] = {}
        """By node name, those with trust."""
        self._estimates: dict[str, _Estimate] = {}

    async def refresh(self) -> None:
        """Fetch measurements, or let the ones before grow older. Raises `RefreshError`, and what the client raises."""
        try:
            self._measured = await self._fetched()
        finally:
            await self._take_over()

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod will presumably use."""
        return tuple(pod.nonzero_requests.get(name, 0) for name, _ in self._resources)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """0..100, int64 [rows]."""
        del cycle
        demands = [(name, pod.nonzero_requests.get(name, 0), weight) for name, weight in self._resources]
        requested = usage(nodes, rows, demands, nonzero=True)
        return least_allocated(self._blended(requested, nodes, rows) if self._loads else requested)

    def _blended(self, requested: Usage, nodes: NodeTable, rows: Rows) -> Usage:
        """The usage with estimates in place of requests, as far as they are trusted."""
        figures = np.array([self._figures(nodes, row) for row in rows.tolist()], dtype=np.int64).reshape(-1, 3)
        trust = figures[:, 0]
        by_requests = np.minimum(requested.requested, _MOST)
        by_measurement = np.stack([figures[:, 1 if name == CPU else 2] for name, _ in self._resources])
        blend = (trust * by_measurement + (TRUST_STEPS - trust) * by_requests) // TRUST_STEPS
        used = np.where(trust > 0, blend, requested.requested)
        return Usage(requested.allocatable, used, requested.requests, requested.weights)

    def _figures(self, nodes: NodeTable, row: int) -> tuple[int, int, int]:
        """Trust, CPU and memory of a row."""
        load = self._loads.get(nodes.name_of(row))
        if load is None:
            return 0, 0, 0
        estimate = self._estimate(nodes, row, load, self._estimates)
        return load.trust, estimate.cpu, estimate.memory

    def _estimate(self, nodes: NodeTable, row: int, load: _Load, known: dict[str, _Estimate]) -> _Estimate:
        """The estimate of a row; kept until its pods or its measurement change, for pods of all classes."""
        info, version = nodes.info(row), nodes.pods_version.item(row)
        estimate = known.get(info.name)
        if estimate is not None and estimate.load is load and estimate.pods_version == version:
            return estimate
        measured = load.measurement
        cpu = memory = 0
        for pod in info.pods.values():
            if started_at(pod) > measured.begun_at:
                more_cpu, more_memory = pod.nonzero_accounted
                cpu += more_cpu
                memory += more_memory
        share = self._args.unseen_pods_percent
        cpu, memory = measured.cpu + cpu * share // 100, measured.memory + memory * share // 100
        estimate = known[info.name] = _Estimate(load, version, min(cpu, _MOST), min(memory, _MOST))
        return estimate

    async def _fetched(self) -> Measurements:
        if self._args.prometheus is not None:
            return await from_prometheus(self._args.prometheus, self._handle.view.nodes)
        if self._handle.client is None:
            raise RefreshError("there is no API server to ask for metrics, so requests are all that is known")
        return await from_metrics_server(self._handle.client)

    async def _take_over(self) -> None:
        """Judge ages, work out estimates in the background, then exchange all at once."""
        now, nodes = self._handle.clock.time(), self._handle.view.nodes
        loads: dict[str, _Load] = {}
        estimates: dict[str, _Estimate] = {}
        for place, (name, measurement) in enumerate(self._measured.items()):
            row = nodes.row_of(name)
            trust = self._trust(now - measurement.ended_at)
            if row >= 0 and trust:
                load, before = _Load(measurement, trust), self._loads.get(name)
                loads[name] = before if before is not None and before == load else load
                if name in self._estimates:
                    estimates[name] = self._estimates[name]
                self._estimate(nodes, row, loads[name], estimates)
            if place % _NODES_AT_A_TIME == _NODES_AT_A_TIME - 1:
                await asyncio.sleep(0)
        changed = [name for name in self._loads.keys() | loads.keys() if self._loads.get(name) is not loads.get(name)]
        self._loads, self._estimates = loads, estimates
        if changed:
            self._handle.nodes_changed(changed)

    def _trust(self, age: float) -> int:
        fresh, stale = self._args.fresh_for.seconds, self._args.stale_after.seconds
        if age <= fresh:  # also where the measuring clock is ahead of ours
            return TRUST_STEPS
        return max(0, int(TRUST_STEPS * (stale - age) / (stale - fresh)))
