"""HyperNodes of Volcano as domains: which nodes each of them has.

Members are named, or selected by a regular expression (of RE2, so that it takes linear time) or by labels of nodes. A
HyperNode of a higher tier has the nodes of its members. What names itself in a circle, or is nested deeper than
`MAX_DEPTH`, has no nodes on the way round.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import re2

from kscheduler.api.core import Node
from kscheduler.api.selectors import parse_label_selector
from kscheduler.api.topologies import HyperNode, HyperNodeMember

MAX_DEPTH: Final = 16
# Characters of a regular expression, and bytes that it may take when it is compiled.
_LONGEST_PATTERN: Final = 1_024
_PATTERN_BYTES: Final = 256 << 10


class Tier(msgspec.Struct, frozen=True):
    """All HyperNodes of one tier."""

    number: int
    name: str
    """Empty: it has none."""
    domains: Mapping[str, str]
    """By name of a node the HyperNode that has it; of several the first by name."""


def tiers_of(hyper_nodes: Mapping[str, HyperNode], nodes: Iterable[Node]) -> list[Tier]:
    """The tiers that have nodes, from the widest to the narrowest; the first is tier 1. `hyper_nodes`: by name."""
    search = _Search(hyper_nodes, {node.metadata.name: node for node in nodes})
    domains: dict[int, dict[str, str]] = {}
    names: dict[int, str] = {}
    for name in sorted(hyper_nodes):
        spec = hyper_nodes[name].spec
        names[spec.tier] = names.get(spec.tier) or spec.tier_name
        of_tier = domains.setdefault(spec.tier, {})
        for node in search.nodes_of(name, 0):
            of_tier.setdefault(node, name)
    return [
        Tier(tier, names[tier], domains[tier]) for tier in sorted(domains, reverse=True) if tier >= 1 and domains[tier]
    ]


class _Search:
    def __init__(self, hyper_nodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]) -> None:
        self._hyper_nodes, self._nodes = hyper_nodes, nodes
        self._known: dict[str, frozenset[str]] = {}

    def nodes_of(self, name: str, depth: int) -> frozenset[str]:
        """The names of a HyperNode's nodes."""
        known = self._known.get(name)
        if known is not None:
            return known
        self._known[name] = frozenset()  # on the way round
        found: set[str] = set()
        members = self._hyper_nodes[name].spec.members if depth < MAX_DEPTH else ()
        for member in members:
            if member.type == "HyperNode":
                for child in self._named(member, self._hyper_nodes):
                    found |= self.nodes_of(child, depth + 1)
            elif member.type == "Node":
                found.update(self._named(member, self._nodes))
        self._known[name] = frozenset(found)
        return self._known[name]

    def _named(self, member: HyperNodeMember, known: Mapping[str, object]) -> list[str]:
        selector = member.selector
        if selector.exact_match is not None:
            return [selector.exact_match.name] if selector.exact_match.name in known else []
        if selector.regex_match is not None:
            pattern = _compiled(selector.regex_match.pattern)
            return [] if pattern is None else [name for name in known if pattern.search(name)]
        if selector.label_match is not None and member.type == "Node":
            wanted = parse_label_selector(selector.label_match)
            return [name for name, node in self._nodes.items() if wanted.matches(node.metadata.labels)]
        return []


def _compiled(pattern: str) -> Any:
    """`None` for what is no expression, or too large a one."""
    if len(pattern) > _LONGEST_PATTERN:
        return None
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, _PATTERN_BYTES
    try:
        return re2._Regexp(pattern, options)  # as `re2.compile`, which keeps the last 128 whatever they weigh
    except re2.error:
        return None
