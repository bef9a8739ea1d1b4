"""The levels of the cluster's topology, from wide to narrow. A request names one: here are those that are around it.

    the configuration    topologyLevels: lists of labels
    Topology (Kueue)     spec.levels[].nodeLabel
    HyperNodes (Volcano) sets of nodes by tier
    well-known labels    those that nodes have, the one with the fewest values first

A request is answered by the first list that has all labels that it names. Where none has, there are the well-known
labels, and at the last the named labels themselves.

Objects of a kind may not be known: the API server does not serve it, or they are not listed yet. Then what would come
after them in this order does not answer a request that must be met (`LevelsAwaited`).
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler.api.kinds import Kind
from kscheduler.api.topologies import HYPER_NODES, MAX_LEVELS, TOPOLOGY_KINDS, HyperNode, KueueTopology, opposite_orders
from kscheduler.api.well_known import HOSTNAME, REGION, ZONE
from kscheduler.framework.cluster.topology_request import (
    NARROWEST,
    WIDEST,
    TopologyRequest,
    tier_key,
    tier_of_key,
)
from kscheduler.framework.nodes.node_table import NodeTable, Rows

# Labels that clouds and NVIDIA's topograph set, roughly from wide to narrow.
WELL_KNOWN: Final = (
    REGION,
    ZONE,
    "network.topology.nvidia.com/datacenter",
    "network.topology.nvidia.com/core",
    "network.topology.nvidia.com/spine",
    "network.topology.nvidia.com/leaf",
    "network.topology.nvidia.com/block",
    "network.topology.nvidia.com/accelerator",
    *(f"fabric.topograph.run/tier-{number}" for number in range(7, -1, -1)),
    "accelerator.topograph.run/domain",
    "accelerator.topograph.run/sub-domain",
    "cloud.google.com/gce-topology-block",
    "cloud.google.com/gce-topology-subblock",
    "cloud.google.com/gce-topology-host",
    *(f"topology.k8s.aws/network-node-layer-{number}" for number in range(1, 4)),
    "nvidia.com/gpu.clique",
)
# For so many kinds of requests the domains of all nodes are kept: some hundred KiB each.
_MAX_KEPT: Final = 8
# So many Topologies are compared with each other.
_MAX_COMPARED: Final = 256
KUEUES_RESOURCE: Final = TOPOLOGY_KINDS["kueue"].resource

T = TypeVar("T")

_NamesWithLabels = list[tuple[str, Mapping[str, str]]]
# A value's number per row (0: missing), and the values by number.
LevelColumn = tuple[NDArray[np.int32], Sequence[str | None]]


class TopologyLevel(msgspec.Struct, frozen=True):
    """One level."""

    key: str
    """The label of nodes, or the name of a tier."""
    alias: str = ""
    """Another name of a tier."""
    tier: int | None = None
    """Tier 1 is the narrowest; `None`: it is a label, which has a tier only by its place."""
    domains: Mapping[str, str] | None = None
    """By node its domain; `None`: the label's value says it."""

    def column(self, nodes: NodeTable, rows: Rows) -> LevelColumn:
        """The domains of these nodes."""
        if self.domains is None:
            return nodes.label_values(self.key, rows)
        values: list[str | None] = [None]
        numbers: dict[str, int] = {}
        column = np.zeros(len(rows), dtype=np.int32)
        for place, row in enumerate(rows.tolist()):
            domain = self.domains.get(nodes.name_of(row))
            if domain is not None:
                if domain not in numbers:
                    numbers[domain] = len(values)
                    values.append(domain)
                column[place] = numbers[domain]
        return column, values


class LevelList(msgspec.Struct, frozen=True):
    """Levels that belong together, at least one."""

    source: str
    """Where they come from, for people."""
    levels: tuple[TopologyLevel, ...]
    """From wide to narrow."""

    @property
    def has_tiers(self) -> bool:
        """Whether its levels have tiers of their own."""
        return self.levels[0].tier is not None

    def place_of(self, name: str) -> int:
        """The number of the level that is named so; -1: there is none."""
        if name == WIDEST:
            return 0
        keys = [level.key for level in self.levels]
        # Members are not counted out to single nodes unless somebody names them.
        last = len(keys) - 1 - (keys[-1] == HOSTNAME and len(keys) > 1)
        if name == NARROWEST:
            return last
        for place, level in enumerate(self.levels):
            if name in (level.key, level.alias):
                return place
        tier = tier_of_key(name)
        if tier is None:
            return -1
        # The widest level that is not beyond the tier; labels are counted from the narrowest.
        tiers = [last - place + 1 if level.tier is None else level.tier for place, level in enumerate(self.levels)]
        return next((place for place in range(last + 1) if tiers[place] <= tier), -1)

    def answers(self, request: TopologyRequest) -> bool:
        """Whether it has all levels that the request names."""
        return all(
            self.place_of(name) >= 0 for name in (request.required, request.preferred, request.slice_level) if name
        )


class LevelsAwaited(msgspec.Struct, frozen=True):
    """The list that answers a request may be among objects that are not known yet."""

    text: str
    """What is awaited, and why."""


def none_awaited(_: Kind) -> str:
    """The objects of all kinds are known."""
    return ""


class TopologyLevels:
    """All lists that are known."""

    def __init__(self, why_awaited: Callable[[Kind], str] = none_awaited) -> None:
        """`why_awaited`: why the objects of a kind are not known; empty: they are."""
        self.kinds: tuple[Kind, ...] = ()
        """Kinds of objects that are followed."""
        self._why_awaited = why_awaited
        self.configured: tuple[LevelList, ...] = ()
        """Those of the configuration."""
        self._of_objects: dict[str, LevelList] = {}
        """By name of Kueue's object."""
        self._hyper_nodes: dict[str, HyperNode] = {}
        self._tiers: tuple[object, _NamesWithLabels, LevelList | None] = None, [], None
        """For which nodes the HyperNodes were looked through last, and their levels."""
        self._problems_with_tiers: dict[str, str] = {}
        """What was wrong with them then."""
        self._problems_of_hyper_nodes: dict[str, str] = {}
        """As they were looked through last, for a group that asks for a topology, or by `check`."""
        self._checked_names: tuple[str, ...] | None = None
        """The names of the nodes that there were then; `None`: HyperNodes have changed since."""
        self.version = 0
        """Grows with each change of the objects, and of what is wrong with them."""
        self._kept: dict[Hashable, Any] = {}
        """What follows from the labels of all nodes, for one state of them; `_MAX_KEPT` at most."""
        self._kept_for = -1

    def configure(self, lists: Iterable[Sequence[str]]) -> None:
        """Take these lists of labels from the configuration."""
        self.configured = tuple(level_list(f"topologyLevels[{number}]", keys) for number, keys in enumerate(lists))

    def follow(self, names: Iterable[str]) -> None:
        """Which projects' objects there are (`topologyAPIs`)."""
        self.kinds = tuple(TOPOLOGY_KINDS[name] for name in names)

    def awaited(self) -> dict[str, str]:
        """By resource, why the objects of kinds that are followed are not known."""
        return {kind.resource: why for kind in self.kinds if (why := self._why_awaited(kind))}

    def put(self, obj: KueueTopology | HyperNode) -> None:
        """Add an object, or replace it."""
        name = obj.metadata.name
        self.version += 1
        if isinstance(obj, HyperNode):
            self._hyper_nodes[name] = obj
            self._problems_of_hyper_nodes.pop(name, None)
            self._forget()
        elif obj.spec.levels:
            keys = dict.fromkeys(level.node_label for level in obj.spec.levels[:MAX_LEVELS])
            self._of_objects[name] = level_list(f"Topology {name}", keys)
        else:
            self._of_objects.pop(name, None)

    def remove(self, obj: KueueTopology | HyperNode) -> None:
        """The object is gone."""
        known: dict[str, Any] = self._hyper_nodes if isinstance(obj, HyperNode) else self._of_objects
        known.pop(obj.metadata.name, None)
        self._forget()
        self.version += 1

    def problems(self) -> dict[tuple[str, str], str]:
        """By resource and name of an object, what is wrong with it.

        Of HyperNodes as far as a group has asked for a topology, or `check` was called. Of two lists that have the same
        levels in opposite orders the one that `find` asks first wins: that of the configuration, else the first by
        name.
        """
        lists = [*self.configured, *(self._of_objects[name] for name in sorted(self._of_objects)[:_MAX_COMPARED])]
        named = [(each.source, [level.key for level in each.levels]) for each in lists]
        names = {self._of_objects[name].source: name for name in self._of_objects}
        found = {
            (KUEUES_RESOURCE, names[each.name]): (
                f"spec.levels has {each.wide} before {each.narrow}, and {each.other}, which wins, the other way round"
            )
            for each in opposite_orders(named)
            if each.name in names
        }
        of_hyper_nodes = self._problems_of_hyper_nodes.items()
        found |= {(HYPER_NODES.resource, name): text for name, text in of_hyper_nodes if name in self._hyper_nodes}
        return found

    def check(self, nodes: NodeTable) -> Generator[None, None, bool]:
        """Look what is wrong with HyperNodes, if they or the names of nodes are others than when this was found out.

        It pauses often. Returns whether it could be done: not before all have been listed, nor if something has
        changed in a pause.
        """
        names, version = nodes.names(), self.version
        if not self._hyper_nodes or names == self._checked_names:
            return True
        if self._why_awaited(HYPER_NODES):
            return False
        from kscheduler.state.hyper_nodes import problems_of  # it loads RE2, which few need

        found = yield from problems_of(dict(self._hyper_nodes), filter(None, names))
        if self.version != version or nodes.names() != names:
            return False
        self._problems_of_hyper_nodes, self._checked_names = found, names
        return True

    def lists(self, nodes: NodeTable) -> tuple[LevelList, ...]:
        """Those of the configuration, then Kueue's by name, then the tiers of HyperNodes."""
        kueue = [self._of_objects[name] for name in sorted(self._of_objects)]
        tiers = self._levels_of_hyper_nodes(nodes) if self._hyper_nodes else None
        return *self.configured, *kueue, *(() if tiers is None else (tiers,))

    def of_all_nodes(self, nodes: NodeTable, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` returns, kept until a node or an object that names levels changes."""
        if nodes.node_columns_version != self._kept_for:
            self._kept, self._kept_for = {}, nodes.node_columns_version
        if key not in self._kept:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            self._kept[key] = make()
        known: T = self._kept[key]
        return known

    def _forget(self) -> None:
        self._tiers, self._checked_names, self._kept = (None, [], None), None, {}

    def _levels_of_hyper_nodes(self, nodes: NodeTable) -> LevelList | None:
        version, before, known = self._tiers
        if version == nodes.node_columns_version:
            return known
        infos = (nodes.info(row).node for row in nodes.rows().tolist())
        present = [node for node in infos if node is not None]
        # Members are selected by these alone. To look through all again may take a second: each expression, each node.
        now: _NamesWithLabels = [(node.metadata.name, node.metadata.labels) for node in present]
        if version is None or now != before:
            from kscheduler.state.hyper_nodes import tiers_of  # it loads RE2, which few need

            found = tiers_of(self._hyper_nodes, present)
            self._problems_with_tiers = found.problems
            self.version += 1
            levels = [
                TopologyLevel(
                    tier_key(tier.number), tier_key(tier.name) if tier.name else "", tier.number, tier.domains
                )
                for tier in found.tiers[-MAX_LEVELS:]
            ]
            known = LevelList("HyperNodes", tuple(levels)) if levels else None
        self._tiers = nodes.node_columns_version, now, known
        # Nodes may have gone and come back: then `check` has found other problems meanwhile.
        self._problems_of_hyper_nodes, self._checked_names = self._problems_with_tiers, nodes.names()
        return known

    def _awaited(self, is_wanted: Callable[[Kind], bool]) -> LevelsAwaited | None:
        """What is awaited of these kinds; `None`: their objects are known."""
        for kind in self.kinds:
            why = self._why_awaited(kind) if is_wanted(kind) else ""
            if why:
                return LevelsAwaited(f"{kind.resource} of topologyAPIs: {why}")
        return None

    def find(self, request: TopologyRequest, nodes: NodeTable, rows: Rows) -> LevelList | LevelsAwaited | str:
        """The list that the request means, what must be known first, or what is wrong. A soft request never waits."""
        tiers_awaited = kueue_awaited = None
        if not request.is_soft:
            tiers_awaited = self._awaited(lambda kind: kind is HYPER_NODES) if request.names_tiers else None
            kueue_awaited = self._awaited(lambda kind: kind is not HYPER_NODES)
        if tiers_awaited is not None:
            return tiers_awaited
        known = self.lists(nodes)
        # Tiers are those of HyperNodes, where there are any.
        for found in sorted(known, key=lambda each: not each.has_tiers) if request.names_tiers else known:
            # Of objects that are not all there another one may come first.
            is_certain = kueue_awaited is None or found.has_tiers or found in self.configured
            if is_certain and found.answers(request):
                return found
        if kueue_awaited is not None:
            return kueue_awaited
        derived = self._derived(request.labels, nodes, rows)
        if derived is None:
            missing = "no levels are known: nodes have none of the well-known labels, and topologyLevels is not set"
            return missing if request.names_tiers or request.is_unconstrained else "no level is named"
        if not derived.answers(request):
            wanted = next(
                n for n in (request.required, request.preferred, request.slice_level) if derived.place_of(n) < 0
            )
            return f"there is no {wanted}"
        return derived

    def _derived(self, named: Sequence[str], nodes: NodeTable, rows: Rows) -> LevelList | None:
        """Each attempt would look through thirty columns: what is found is kept where they are those of all nodes."""
        if len(rows) < len(nodes):
            return _derived(named, nodes, rows)
        return self.of_all_nodes(nodes, ("levels", *named), lambda: _derived(named, nodes, rows))


def level_list(source: str, keys: Iterable[str]) -> LevelList:
    """The list of these labels."""
    return LevelList(source, tuple(TopologyLevel(key) for key in keys))


def _derived(named: Sequence[str], nodes: NodeTable, rows: Rows) -> LevelList | None:
    """The named labels with the well-known ones that nest with them, ordered by how many values nodes have."""
    columns = {key: nodes.label_values(key, rows)[0] for key in dict.fromkeys((*named, *WELL_KNOWN))}
    counts = {key: len(np.unique(column[column > 0])) for key, column in columns.items()}
    # A named label stays in the order of the request where both have as many values; nodes may have none of it.
    kept = list(named)
    for key in WELL_KNOWN:
        if key not in kept and counts[key] and all(_nest(key, other, columns, counts) for other in kept):
            kept.append(key)
    places = {key: place for place, key in enumerate(WELL_KNOWN)}
    order = sorted(kept, key=lambda key: (counts[key] or len(rows) + 1, places.get(key, -1)))
    if HOSTNAME in order:
        order = [*(key for key in order if key != HOSTNAME), HOSTNAME]
    return level_list("labels of the nodes", order) if order else None


def _nest(key: str, other: str, columns: Mapping[str, NDArray[np.int32]], counts: Mapping[str, int]) -> bool:
    """Whether each domain of the narrower label is within one domain of the wider one."""
    wide, narrow = (key, other) if counts[key] <= counts[other] else (other, key)
    has_both = (columns[wide] > 0) & (columns[narrow] > 0)
    pairs = columns[wide][has_both].astype(np.int64) * (1 << 32) + columns[narrow][has_both]
    return len(np.unique(pairs)) == len(np.unique(columns[narrow][has_both]))
