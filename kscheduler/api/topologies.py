"""Objects that name the levels of a cluster's topology.

    kueue.x-k8s.io/v1beta2            Topology   labels of nodes, from wide to narrow (also v1beta1)
    topology.volcano.sh/v1alpha1      HyperNode  a set of nodes or of other HyperNodes, on a tier; tier 1 is the nearest

Only the fields that a decision reads. All of them are cluster-scoped.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from kscheduler.api.core import LabelSelector
from kscheduler.api.kinds import Kind, single
from kscheduler.api.meta import KubeObject, Value

# Levels of one list, as many as Kueue allows.
MAX_LEVELS: Final = 16


class KueueLevel(Value, frozen=True):
    """One level."""

    node_label: str = ""


class KueueTopologySpec(Value, frozen=True):
    """The levels."""

    levels: tuple[KueueLevel, ...] = ()
    """From wide to narrow."""


class KueueTopology(KubeObject):
    """Levels by labels."""

    spec: KueueTopologySpec = KueueTopologySpec()


class ExactMatch(Value, frozen=True):
    """One node, or one HyperNode."""

    name: str = ""


class RegexMatch(Value, frozen=True):
    """All whose name matches."""

    pattern: str = ""


class MemberSelector(Value, frozen=True):
    """One of these; labels select nodes only."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Value, frozen=True):
    """What belongs to a HyperNode."""

    type: str = ""
    """`Node` or `HyperNode`."""
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Value, frozen=True):
    """A part of the network."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(KubeObject):
    """Nodes that are near to each other."""

    spec: HyperNodeSpec = HyperNodeSpec()


def _kueue(version: str) -> Kind:
    return single(Kind("kueue.x-k8s.io", version, "topologies", "Topology", KueueTopology))


HYPER_NODES: Final = single(Kind("topology.volcano.sh", "v1alpha1", "hypernodes", "HyperNode", HyperNode))
# By the name that a configuration has for them (`topologyAPIs`).
TOPOLOGY_KINDS: Final[Mapping[str, Kind]] = {
    "kueue": _kueue("v1beta2"),
    "kueue-v1beta1": _kueue("v1beta1"),
    "volcano": HYPER_NODES,
}


def not_served(kind: Kind) -> str:
    """Why there are no objects of a kind."""
    return f"the API server does not serve {kind.version}"


class OppositeOrder(NamedTuple):
    """A list of levels that contradicts one before it."""

    name: str
    other: str
    """The list before it."""
    wide: str
    narrow: str
    """The first two levels that the other one has the other way round."""


def opposite_orders(lists: Iterable[tuple[str, Sequence[str]]]) -> Iterator[OppositeOrder]:
    """The lists that contradict one before them, each once. `lists`: names with levels, from wide to narrow."""
    first_with: dict[tuple[str, str], str] = {}
    for name, keys in lists:
        pairs = list(combinations(dict.fromkeys(keys[:MAX_LEVELS]), 2))
        wrong = next(((wide, narrow) for wide, narrow in pairs if (narrow, wide) in first_with), None)
        if wrong is not None:
            wide, narrow = wrong
            yield OppositeOrder(name, first_with[narrow, wide], wide, narrow)
            continue  # who agrees with the first one contradicts nobody
        for pair in pairs:
            first_with.setdefault(pair, name)
