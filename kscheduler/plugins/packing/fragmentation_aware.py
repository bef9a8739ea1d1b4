"""FragmentationAware: the node on which the room that typical pods cannot use grows least.

A device may be idle and yet of no use: too little is left on it for the shares that pods ask for, too few devices are
free on the node, or its CPU is spent. The expected fragment of a node is the idle room that a pod drawn from the mix of
typical pods could not use (FGD: Weng et al., USENIX ATC 2023):

    F = mean over the mix of: the idle room on devices that are too small for the pod, if it can run there;
                              all of the idle room, if it cannot (CPU, devices, affinity) or asks for none

That is about the next pod only. What runs out in the long run is told by the ratio of CPU to devices in the mix: idle
devices for which the node has no CPU left once it is filled up in that ratio are stranded.

    S = max(0, idle room - free CPU / CPU per device in the mix)

    points = floor(100 / (1 + exp(growth of (F + strandedWeight * S) in devices)))

so that 50 means: nothing changes. With `strandedWeight: 0` it is the policy of the paper. Ties decide much: FGD loses
five points of a hundred where harmless pods are scattered over all nodes. Give the profile
`tieRule: FirstInOrder`, or BestFit with a hundredth of the weight.

All sums are of whole numbers, so that equal states have equal points whatever the order of additions. Limits: memory
does not count; a node's devices are all alike. Of DRA the devices of the class that stands for the resource count, on
nodes that list none of it; the allocator chooses the device of a share by itself.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kscheduler.aio.tasks import Slicer, run_in_slices
from kscheduler.api.kinds import PODS
from kscheduler.api.quantity import QuantityError
from kscheduler.bounded import RecentlyUsed
from kscheduler.config.plugin_args import FragmentationAwareArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import CPU_INDEX, NodeTable, Rows, Scores
from kscheduler.framework.plugin import MAX_NODE_SCORE, UNSIGNABLE, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU
from kscheduler.framework.status import SUCCESS
from kscheduler.plugins.packing.claimable_devices import claimable_devices
from kscheduler.plugins.packing.device_columns import NO_DEMAND, WHOLE, DeviceColumns, DeviceDemand, Free, demand_of
from kscheduler.plugins.packing.device_shapes import as_demand
from kscheduler.plugins.packing.device_shares import DeviceChoice
from kscheduler.plugins.packing.typical_pods import MAX_CPU, Shape, TypicalPods, most_frequent, pod_of, trimmed

# Of those that run: of more only each so many-th node is looked at.
_ENOUGH_PODS: Final = 20_000
# The mix is exchanged when so much of it has changed: all points are worked out again then.
_LEAST_CHANGE: Final = 0.05

# Kinds of pods with claims whose points are kept: 9 bytes a row each.
MAX_KEPT: Final = 16
# In place of what a pod takes of devices of DRA: the row has none.
_LISTED: Final = -1
# By row, device and distinct demand: on few rows numpy's calls cost most, on many its memory.
_LARGEST_CUBE: Final = 20_000

Amounts = NDArray[np.int64]


class FragmentationAware(Plugin):
    """0 to 100 points; 50 where nothing is lost."""

    name = "FragmentationAware"
    depends_on = (Source.ROW,)
    reads_spec_only = True
    is_live_unsigned = True

    def __init__(self, args: FragmentationAwareArgs | None, handle: Handle) -> None:
        args = args or FragmentationAwareArgs()
        self._handle = handle
        self._devices = args.devices
        self._columns = DeviceColumns(args.devices, handle.view)
        self._claimable = claimable_devices(args.devices.resource, handle)
        self._kept: RecentlyUsed[Hashable, _KeptPoints] = RecentlyUsed(MAX_KEPT)
        self._stranded_weight = args.stranded_weight
        self._is_given = bool(args.typical_pods)
        given: Counter[Shape] = Counter()
        for typical in args.typical_pods:
            given[Shape.of(pod_of(typical), args.devices)] += typical.count
        self._typical = TypicalPods(dict(given))
        self.refresh_interval = args.learning_interval.seconds

    async def refresh(self) -> None:
        """Learn the mix from the pods that run and wait, but for those of DaemonSets."""
        if self._is_given:
            return
        shapes: Counter[Shape] = Counter()
        most_cpu, slicer = self._most_cpu(), Slicer()
        for pod, count in self._expected_pods():
            if not any(owner.kind == "DaemonSet" for owner in pod.pod.metadata.owner_references):
                try:
                    shapes[Shape.of(pod, self._devices, self._claimed_by(pod), most_cpu)] += count
                    shapes = trimmed(shapes)
                except QuantityError:
                    continue  # it is told where it is counted
            if slicer.used_up():  # a pod may have thousands of terms
                await slicer.turn()
        mix = await run_in_slices(most_frequent(shapes), slicer)
        if _difference(self._typical.mix, mix) >= _LEAST_CHANGE:
            self._typical = TypicalPods(mix)
            nodes = self._handle.view.nodes
            self._handle.nodes_changed(nodes.names(nodes.rows()))

    def _most_cpu(self) -> int:
        """What no node has: a thousandth more than the largest one."""
        nodes = self._handle.view.nodes
        largest = nodes.allocatable[CPU_INDEX][nodes.rows()].max(initial=0)
        return min(int(largest) + 1, MAX_CPU) if largest else MAX_CPU

    def _claimed_by(self, pod: PodInfo) -> DeviceDemand:
        return NO_DEMAND if self._claimable is None else self._claimable.usual_demand(pod)

    def _expected_pods(self) -> Iterator[tuple[PodInfo, int]]:
        """Pods that run, of enough nodes, each with the number of pods that it stands for; and pods that wait."""
        nodes = self._handle.view.nodes
        rows = nodes.rows()
        every = max(1, int(nodes.pod_count[rows].sum()) // _ENOUGH_PODS)
        for row in rows[::every].tolist():
            info = nodes.infos[row]
            for pod in () if info is None else tuple(info.pods.values()):
                yield pod, every
        for waiting in self._handle.lister(PODS).list():
            if not (waiting.spec.node_name or waiting.is_terminal):
                yield PodInfo(waiting), 1

    def sign(self, pod: PodInfo) -> Hashable:
        """What the pod takes of CPU and devices; what claims ask for is theirs to say."""
        if self._claimable is not None and pod.pod.spec.resource_claims:
            return UNSIGNABLE
        return pod.requests.get(CPU, 0), demand_of(pod.requests, self._devices)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Tell DeviceShares which device a share should go to."""
        del nodes
        if demand_of(pod.requests, self._devices).is_share:
            cycle.write(DeviceChoice(self._best_device))
        return PreFilterResult(SUCCESS)

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """0..100, int64 [rows]."""
        del cycle
        if not pod.pod.spec.resource_claims or self._claimable is None or nodes is not self._handle.view.nodes:
            return self._points_at(pod, nodes, rows)
        if self._claimable.free(nodes, rows[:0]) is None:  # it has followed all changes now
            return self._points_at(pod, nodes, rows)
        key = frozenset(pod.requests.items()), self._claimable.demand_by_shape(pod)
        kept = self._kept.use(key)
        if kept is None:
            kept = self._kept[key] = _KeptPoints()
        unknown = kept.unknown(rows, nodes, self._claimable.changes, self._typical)
        if len(unknown):
            kept.put(unknown, self._points_at(pod, nodes, unknown))
        return kept.points[rows]

    def _points_at(self, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        cpu = nodes.allocatable[CPU_INDEX][rows] - nodes.requested[CPU_INDEX][rows]
        accepted = self._typical.accepts(self._handle.view.nodes, rows)
        free = self._columns.free(nodes, rows)
        asked, demand = pod.requests.get(CPU, 0), demand_of(pod.requests, self._devices)
        claimable = None if self._claimable is None else self._claimable.free(nodes, rows)
        if self._claimable is None or claimable is None:
            return self._points(cpu, free, accepted, asked, demand)[0]
        # By what the pod takes there: of a device plugin's devices, and of each model of those of DRA.
        is_claimable = claimable[:, 0] >= 0
        milli = np.where(is_claimable, self._claimable.demand(pod, nodes, rows), _LISTED)
        points = np.zeros(len(rows), dtype=np.int64)
        for amount in np.unique(milli).tolist():
            here = milli == amount
            found, taken = (free, demand) if amount == _LISTED else (claimable, as_demand(amount))
            points[here] = self._points(
                cpu[here], found[here], None if accepted is None else accepted[here], asked, taken
            )[0]
        return points

    def _points(
        self, cpu: Amounts, free: Free, accepted: NDArray[np.bool_] | None, asked: int, demand: DeviceDemand
    ) -> tuple[Scores, Amounts]:
        """The points of each row, and for a share the device that gives them: both int64 [row].

        `cpu`: free, in thousandths [row]; `free`: [row, device]; `accepted`: [row, shape]; `asked`: the pod's CPU.
        """
        before = _State.of(self._typical, free)
        lost = self._lost(before, cpu, accepted)
        if not demand.is_share:
            after = _State.of(self._typical, _without_whole(free, demand)) if demand.devices else before
            grown = self._lost(after, cpu - asked, accepted) - lost
            return _as_points(grown), np.full(len(free), -1, dtype=np.int64)
        # One candidate for each device with room, but only the first of those with the same rest: [row, device]
        fits = free >= demand.milli
        for place in range(1, free.shape[1]):
            fits[:, place] &= ~(free[:, :place] == free[:, place : place + 1]).any(axis=1)
        row, device = fits.nonzero()
        after = before.with_share(self._typical, row, free[row, device], demand.milli)
        of_row = None if accepted is None else accepted[row]
        points = np.full(free.shape, -1, dtype=np.int64)
        points[row, device] = _as_points(self._lost(after, cpu[row] - asked, of_row) - lost[row])
        best = points.argmax(axis=1)
        return points[np.arange(len(free)), best].clip(0), best

    def _lost(self, state: "_State", cpu: Amounts, accepted: NDArray[np.bool_] | None) -> NDArray[np.float64]:
        """F + strandedWeight * S in devices: float64 [row]. `cpu`: what is free, in thousandths."""
        typical = self._typical
        usable = (cpu[:, None] >= typical.cpu) & (state.enough >= typical.devices) & (typical.devices > 0)
        if accepted is not None:
            usable &= accepted
        idle = state.idle
        unused = np.where(usable, state.too_small, idle[:, None]) @ typical.counts
        lost: NDArray[np.float64] = unused / (typical.total * WHOLE)
        if self._stranded_weight and typical.cpu_per_milli:
            stranded = np.maximum(0.0, idle - cpu / typical.cpu_per_milli)
            lost = lost + stranded * (self._stranded_weight / WHOLE)
        return lost

    def _best_device(self, free: list[int], info: NodeInfo, pod: PodInfo, demand: DeviceDemand) -> int:
        """The device that gives a share the points that its node got."""
        nodes = self._handle.view.nodes
        asked = pod.requests.get(CPU, 0)
        cpu = info.allocatable.get(CPU, 0) - info.requested.get(CPU, 0) + asked  # the pod counts there already
        accepted = self._typical.accepts(nodes, np.array([nodes.row_of(info.name)], dtype=np.intp))
        _, device = self._points(
            np.array([cpu], dtype=np.int64), np.array([free], dtype=np.int64), accepted, asked, demand
        )
        return int(device[0])


class _KeptPoints:
    """The points of rows for pods with claims that ask for the same: of each row until it changes."""

    __slots__ = ("_devices_seen", "_is_known", "_rows_seen", "_typical", "points")

    def __init__(self) -> None:
        self.points: Scores = np.zeros(0, dtype=np.int64)
        self._is_known: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._typical: TypicalPods | None = None
        self._rows_seen = self._devices_seen = -1

    def unknown(self, rows: Rows, nodes: NodeTable, devices: ChangeLog, typical: TypicalPods) -> Rows:
        """Those of the rows whose points must be worked out."""
        of_rows = nodes.row_changes.since(self._rows_seen) if self._rows_seen >= 0 else None
        of_devices = devices.since(self._devices_seen)
        if of_rows is None or of_devices is None or typical is not self._typical or len(self.points) != nodes.capacity:
            self.points = np.zeros(nodes.capacity, dtype=np.int64)
            self._is_known = np.zeros(nodes.capacity, dtype=np.bool_)
            self._typical = typical
        else:
            self._is_known[of_rows] = self._is_known[of_devices] = False
        self._rows_seen, self._devices_seen = nodes.row_changes.position, devices.position
        return rows[~self._is_known[rows]]

    def put(self, rows: Rows, points: Scores) -> None:
        """Keep what has been worked out."""
        self.points[rows] = points
        self._is_known[rows] = True


class _State:
    """What the shapes find on the devices of each row: int64 arrays."""

    __slots__ = ("enough", "idle", "too_small")

    def __init__(self, enough: Amounts, too_small: Amounts, idle: Amounts) -> None:
        self.enough = enough
        """[row, shape]: how many devices have enough left."""
        self.too_small = too_small
        """[row, shape]: the thousandths that are idle on the others."""
        self.idle = idle
        """[row]: the thousandths that are idle."""

    @classmethod
    def of(cls, typical: TypicalPods, free: Free) -> "_State":
        """The state of rows: `free` is [row, device], -1 where there is no device."""
        idle, is_device, milli = free.clip(0), free >= 0, typical.distinct_milli
        if free.size * len(milli) <= _LARGEST_CUBE:
            fits = (free[:, :, None] >= milli) & is_device[:, :, None]  # [row, device, distinct milli]
            enough = fits.sum(axis=1)
            too_small = np.where(fits, 0, idle[:, :, None]).sum(axis=1)
        else:  # the same, device by device
            enough = np.zeros((len(free), len(milli)), dtype=np.int64)
            too_small = np.zeros_like(enough)
            for device in range(free.shape[1]):
                fits = (free[:, device, None] >= milli) & is_device[:, device, None]
                enough += fits
                too_small += np.where(fits, 0, idle[:, device, None])
        place = typical.place_of_milli
        return cls(enough[:, place], too_small[:, place], idle.sum(axis=1))

    def with_share(self, typical: TypicalPods, row: NDArray[np.intp], left: Amounts, milli: int) -> "_State":
        """The states after so many thousandths of a device with `left` are taken: one for each entry of `row`."""
        before, after = left[:, None], (left - milli)[:, None]
        fitted, fits = before >= typical.milli, after >= typical.milli
        enough = self.enough[row] - fitted + fits
        too_small = self.too_small[row] - np.where(fitted, 0, before) + np.where(fits, 0, after)
        return _State(enough, too_small, self.idle[row] - milli)


def _without_whole(free: Free, demand: DeviceDemand) -> Free:
    """What is left after the first free devices are taken; where there are too few, all of them: it is not feasible."""
    is_free = free == WHOLE
    taken = is_free & (is_free.cumsum(axis=1) <= demand.devices)
    return np.where(taken, 0, free)


def _as_points(grown: NDArray[np.float64]) -> Scores:
    """floor(100 / (1 + exp(grown))): int64, shape of `grown`. No change is exactly 50."""
    bounded = np.clip(grown, -700, 700)
    points: Scores = np.floor(MAX_NODE_SCORE / (1 + np.exp(bounded))).astype(np.int64)
    return points


def _difference(old: dict[Shape, int], new: dict[Shape, int]) -> float:
    """How much of a mix has changed: 0 to 1."""
    if not old or not new:
        return float(old != new)
    totals = sum(old.values()), sum(new.values())
    shares = [abs(old.get(shape, 0) / totals[0] - new.get(shape, 0) / totals[1]) for shape in old.keys() | new.keys()]
    return sum(shares) / 2
