"""The mix of pods that is expected: shapes, and how many of each.

A shape is what matters for fragments: CPU, devices, and on which nodes the pod may run. A few shapes are mostly nearly
all pods: the most frequent are taken until they cover 95 % (as in the FGD paper), at most 256 of them.

On which rows a shape may run is kept as a column of bits, and worked out again for the nodes that have changed.
"""

from collections import Counter
from collections.abc import Collection, Generator
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import Affinity, Container, Pod, PodSpec, ResourceRequirements
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.selectors import NodeTerm
from kscheduler.config.plugin_args import SharedDevices, TypicalPod
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.requests import CPU
from kscheduler.plugins.packing.device_columns import MAX_DEVICES, NO_DEMAND, DeviceDemand, demand_of

# Of all pods: how many the shapes must cover.
COVERED: Final = 0.95
# Each takes a bit for each node, and its share of the time of each decision.
MAX_SHAPES: Final = 256
# That are kept while pods are counted: pods whose requests a program has set may all differ.
MOST_KEPT: Final = 1024
# In thousandths: more than any machine has, and its sums over all pods are within an int64.
MAX_CPU: Final = 10**9


# What two pods have in common: a tuple, by whose first entries the larger one is known.
S = TypeVar("S", bound=tuple[Any, ...])


class Shape(NamedTuple):
    """What two pods have in common that fragments depend on."""

    cpu: int
    """In thousandths."""
    milli: int
    devices: int
    node_selector: NodeTerm | None
    required_node_terms: tuple[NodeTerm, ...] | None

    @classmethod
    def of(
        cls, pod: PodInfo, settings: SharedDevices, claimed: DeviceDemand = NO_DEMAND, most_cpu: int = MAX_CPU
    ) -> "Shape":
        """The shape of a pod. `claimed`: what it asks for of devices of DRA. Raises `QuantityError`.

        `most_cpu`: what no node has. A pod that asks for more fits on none either, and should not count for more in the
        mix's ratio of CPU to devices.
        """
        amounts = pod.accounted
        cpu = min(amounts.get(CPU, 0), most_cpu)
        demand = claimed if claimed.devices else demand_of(amounts, settings)
        if not demand.devices:  # it loses all idle room wherever it may run
            return cls(cpu, 0, 0, None, None)
        devices = min(demand.devices, MAX_DEVICES + 1)
        return cls(cpu, demand.milli, devices, pod.node_selector, pod.required_node_terms)


def trimmed(shapes: Counter[S]) -> Counter[S]:
    """The shapes, to be called after each that is counted: of more than `MOST_KEPT` the more frequent half stays."""
    return shapes if len(shapes) <= MOST_KEPT else Counter(dict(shapes.most_common(MOST_KEPT // 2)))


def most_frequent(shapes: Counter[S], always: Collection[S] = ()) -> Generator[None, None, dict[S, int]]:
    """The most frequent shapes that together cover `COVERED` of the pods, and those in `always`, with their numbers.

    Among equally frequent ones the larger is first, so that the same pods always give the same mix. Of those of one
    size the text decides; it may be long, and others may run after each.
    """
    wanted, found = COVERED * shapes.total(), 0
    mix: dict[S, int] = {}
    # Of `always` those that are still to come: they keep their room, however many others are more frequent.
    reserved = sum(shape in always for shape in shapes)
    for _, equal in groupby(sorted(shapes.items(), key=_size, reverse=True), key=_size):
        entries = list(equal)
        if len(entries) > 1:
            texts: dict[S, str] = {}
            for shape, _ in entries:
                texts[shape] = repr(shape)
                yield
            entries.sort(key=lambda entry, texts=texts: texts[entry[0]], reverse=True)  # type: ignore[misc]
        for shape, count in entries:
            is_always = shape in always
            reserved -= is_always
            if (is_always or found < wanted) and len(mix) + (0 if is_always else reserved) < MAX_SHAPES:
                mix[shape] = count
            found += count
    return mix


def _size(entry: tuple[tuple[Any, ...], int]) -> tuple[int, tuple[Any, ...]]:
    """How many pods there are of a shape, and by what the larger one is known."""
    shape, count = entry
    return count, shape[:3]


def pod_of(typical: TypicalPod) -> PodInfo:
    """A pod of a shape that the configuration gives."""
    affinity = None if typical.node_affinity is None else Affinity(node_affinity=typical.node_affinity)
    container = Container(name="typical", resources=ResourceRequirements(requests=dict(typical.requests)))
    spec = PodSpec(containers=(container,), affinity=affinity, node_selector=typical.node_selector)
    return PodInfo(Pod(metadata=ObjectMeta(name="typical", namespace="typical"), spec=spec))


class TypicalPods:
    """A mix, as columns over the shapes."""

    def __init__(self, mix: dict[Shape, int]) -> None:
        shapes = list(mix)
        self.mix = mix
        self.total = max(1, sum(mix.values()))
        self.counts = np.array(list(mix.values()), dtype=np.int64)
        """How many pods there are of each shape: int64 [shape], as everything else here."""
        self.cpu = np.array([shape.cpu for shape in shapes], dtype=np.int64)
        self.milli = np.array([shape.milli for shape in shapes], dtype=np.int64)
        self.distinct_milli, self.place_of_milli = np.unique(self.milli, return_inverse=True)
        """`distinct_milli[place_of_milli]` is `milli`: many shapes take the same of a device."""
        self.devices = np.array([shape.devices for shape in shapes], dtype=np.int64)
        per_device = int((self.milli * self.devices * self.counts).sum())
        self.cpu_per_milli = int((self.cpu * self.counts).sum()) / per_device if per_device else 0.0
        """CPU in thousandths that the mix uses for a thousandth of a device; 0 if it uses no devices."""
        self._choosy = [
            (place, shape)
            for place, shape in enumerate(shapes)
            if shape.node_selector is not None or shape.required_node_terms is not None
        ]
        self._nodes: NodeTable | None = None
        self._seen = -1
        self._accepts: NDArray[np.bool_] = np.ones((0, len(shapes)), dtype=np.bool_)

    def __len__(self) -> int:
        return len(self.counts)

    def accepts(self, nodes: NodeTable, rows: Rows) -> NDArray[np.bool_] | None:
        """Which shapes may run on the rows: bool [row, shape]; `None`: each on any."""
        if not self._choosy:
            return None
        changes = nodes.node_changes
        if nodes is not self._nodes or self._seen != changes.position or len(self._accepts) != nodes.capacity:
            is_known = nodes is self._nodes and self._seen >= 0 and len(self._accepts) == nodes.capacity
            stale = changes.since(self._seen) if is_known else None
            if stale is None:
                self._accepts = np.ones((nodes.capacity, len(self)), dtype=np.bool_)
            stale = nodes.rows() if stale is None else stale[nodes.is_live[stale]]
            for place, shape in self._choosy:
                self._accepts[stale, place] = nodes.wanted_by(shape, stale)
            self._nodes, self._seen = nodes, changes.position
        return self._accepts[rows]
