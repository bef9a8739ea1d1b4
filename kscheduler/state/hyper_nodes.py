"""HyperNodes of Volcano as domains: which nodes each of them has.

Members are named, or selected by a regular expression (of RE2, so that it takes linear time) or by labels of nodes. A
HyperNode of a higher tier has the nodes of its members. What names itself in a circle, or is nested deeper than
`MAX_DEPTH`, has no nodes on the way round. What is wrong with one is a `problem`; the others are domains all the same.

All of it happens within a decision, so it has an end: a number of nodes in all HyperNodes, and a time for looking
through their members. Later HyperNodes (by name) have no nodes then, and say so.

`problems_of` tells what is wrong before a group asks. It takes less time, since it selects no nodes. It pauses often,
so that decisions do not wait for it.
"""

from collections.abc import Callable, Generator, Iterable, Mapping
from time import perf_counter
from typing import Any, Final

import msgspec
import re2

from kscheduler.aio.tasks import finished
from kscheduler.api.core import Node
from kscheduler.api.selectors import parse_label_selector
from kscheduler.api.topologies import HyperNode, HyperNodeMember

MAX_DEPTH: Final = 16
# Nodes in all HyperNodes, some 100 MB; 60,000 nodes may be on all levels.
MAX_NODES: Final = 1 << 20
# For members that are not named. A plain expression takes 3 us for each node, a bad one a thousand times as long.
MAX_SECONDS: Final = 2.0
# For what is wrong where no group has asked, without the pauses.
CHECK_SECONDS: Final = 0.1
# So many nodes are looked at between two looks at the clock.
_STEP: Final = 256
# Characters of a regular expression, and bytes that it may take when it is compiled.
_LONGEST_PATTERN: Final = 1_024
_PATTERN_BYTES: Final = 256 << 10
# Characters of a value in a message.
_QUOTED: Final = 64


class Tier(msgspec.Struct, frozen=True):
    """All HyperNodes of one tier."""

    number: int
    name: str
    """Empty: it has none."""
    domains: Mapping[str, str]
    """By name of a node the HyperNode that has it; of several the first by name."""


class Tiers(msgspec.Struct, frozen=True):
    """All tiers that have nodes, and what is wrong."""

    tiers: list[Tier]
    """From the widest to the narrowest."""
    problems: dict[str, str]
    """By name of a HyperNode its first problem."""


def tiers_of(
    hyper_nodes: Mapping[str, HyperNode],
    nodes: Iterable[Node],
    now: Callable[[], float] = perf_counter,
    max_nodes: int = MAX_NODES,
) -> Tiers:
    """The tiers; the first is tier 1. `hyper_nodes`: by name. `now`: seconds."""
    search = _Search(hyper_nodes, {node.metadata.name: node for node in nodes}, now, MAX_SECONDS, max_nodes)
    domains: dict[int, dict[str, str]] = {}
    names: dict[int, str] = {}
    for name in sorted(hyper_nodes):
        spec = hyper_nodes[name].spec
        names[spec.tier] = names.get(spec.tier) or spec.tier_name
        of_tier = domains.setdefault(spec.tier, {})
        for node in finished(search.look_at(name)):
            of_tier.setdefault(node, name)
    tiers = [
        Tier(tier, names[tier], domains[tier]) for tier in sorted(domains, reverse=True) if tier >= 1 and domains[tier]
    ]
    return Tiers(tiers, search.problems)


def problems_of(
    hyper_nodes: Mapping[str, HyperNode], node_names: Iterable[str], now: Callable[[], float] = perf_counter
) -> Generator[None, None, dict[str, str]]:
    """By name of a HyperNode its first problem, as far as it shows without selecting nodes, and in time.

    Both must stay as they are during the pauses.
    """
    search = _Search(hyper_nodes, dict.fromkeys(node_names), now, CHECK_SECONDS, MAX_NODES, selects=False)
    for name in sorted(hyper_nodes):
        for _ in search.look_at(name):
            paused_at = now()
            yield
            search.ends_at += now() - paused_at
    return search.problems


class _UsedUpError(Exception):
    """There is no time left for this HyperNode's members."""


class _Search:
    def __init__(
        self,
        hyper_nodes: Mapping[str, HyperNode],
        nodes: Mapping[str, Node | None],
        now: Callable[[], float],
        seconds: float,
        nodes_left: int,
        *,
        selects: bool = True,
    ) -> None:
        """`nodes`: by name; where it does not select any they may be `None`."""
        self._hyper_nodes, self._nodes = hyper_nodes, nodes
        self._selects = selects
        self._known: dict[str, frozenset[str]] = {}
        self._on_the_way: list[str] = []
        """The HyperNodes whose members are being looked at, the outermost first."""
        self.problems: dict[str, str] = {}
        self._now, self._nodes_left = now, nodes_left
        self.ends_at = now() + seconds
        """Later members are not looked through."""

    def report(self, name: str, problem: str) -> None:
        """Something is wrong with the HyperNode; its first problem counts."""
        self.problems.setdefault(name, problem)

    def look_at(self, name: str) -> Generator[None, None, frozenset[str]]:
        """The names of a HyperNode's nodes; what is wrong with it is reported."""
        tier = self._hyper_nodes[name].spec.tier
        if tier < 1:
            self.report(name, f"spec.tier {tier} is below 1")
        return (yield from self.nodes_of(name, 0))

    def nodes_of(self, name: str, depth: int) -> Generator[None, None, frozenset[str]]:
        """The names of a HyperNode's nodes."""
        known = self._known.get(name)
        if known is not None:
            if name in self._on_the_way:
                circle = [*self._on_the_way[self._on_the_way.index(name) :], name]
                shown = " -> ".join(circle if len(circle) <= MAX_DEPTH else [*circle[:3], "...", *circle[-2:]])
                self.report(self._on_the_way[-1], f"spec.members name each other in a circle: {shown}")
            return known
        if depth >= MAX_DEPTH:
            self.report(name, f"it is nested deeper than {MAX_DEPTH} levels")
            return frozenset()
        self._known[name] = frozenset()  # on the way round
        self._on_the_way.append(name)
        found: set[str] = set()
        try:
            for number, member in enumerate(self._hyper_nodes[name].spec.members):
                yield
                field = f"spec.members[{number}]"
                if member.type == "HyperNode":
                    for child in (yield from self._named(name, field, member, self._hyper_nodes)):
                        self._check_time()
                        found |= yield from self.nodes_of(child, depth + 1)
                elif member.type == "Node":
                    found.update((yield from self._named(name, field, member, self._nodes)))
                else:
                    self.report(name, f"{field}.type {_quoted(member.type)} is neither Node nor HyperNode")
                if len(found) > self._nodes_left:
                    break
        except _UsedUpError:
            if self._selects:
                self.report(name, f"it has no nodes: after {MAX_SECONDS:.0f} s all members were not looked through")
            found = set()
        if len(found) > self._nodes_left:
            self.report(name, "it has no nodes: there are too many in all HyperNodes together")
            found = set()
        self._on_the_way.pop()
        self._nodes_left -= len(found)
        self._known[name] = frozenset(found)
        return self._known[name]

    def _named(
        self, name: str, field: str, member: HyperNodeMember, known: Mapping[str, object]
    ) -> Generator[None, None, list[str]]:
        """The members that are there; raises `_UsedUpError`."""
        selector = member.selector
        if selector.exact_match is not None:
            if selector.exact_match.name in known:
                return [selector.exact_match.name]
            self.report(name, f"{field}: there is no {member.type} {_quoted(selector.exact_match.name)}")
            return []
        if selector.regex_match is not None:
            self._check_time()
            pattern = _compiled(selector.regex_match.pattern)
            if isinstance(pattern, str):
                wrong = f"{field}.selector.regexMatch.pattern {_quoted(selector.regex_match.pattern)}"
                self.report(name, f"{wrong} {pattern}")
                return []
            if not self._selects and member.type == "Node":
                return []
            return (yield from self._in_time(known, pattern.search))
        if selector.label_match is not None and member.type == "Node":
            wanted = parse_label_selector(selector.label_match)
            if not self._selects:
                return []
            return (yield from self._in_time(known, lambda node: wanted.matches(self._labels_of(node))))
        self.report(name, f"{field}.selector selects nothing")
        return []

    def _labels_of(self, name: str) -> Mapping[str, str]:
        node = self._nodes[name]
        return {} if node is None else node.metadata.labels

    def _check_time(self) -> None:
        if self._now() > self.ends_at:
            raise _UsedUpError

    def _in_time(self, known: Iterable[str], matches: Callable[[str], object]) -> Generator[None, None, list[str]]:
        names, found = list(known), list[str]()
        for begin in range(0, len(names), _STEP):
            yield
            self._check_time()
            found += [name for name in names[begin : begin + _STEP] if matches(name)]
        return found


def _compiled(pattern: str) -> Any:
    """The expression, or what is wrong with it: the end of a sentence."""
    if len(pattern) > _LONGEST_PATTERN:
        return f"is longer than {_LONGEST_PATTERN} characters"
    options = re2.Options()
    options.log_errors, options.never_capture, options.max_mem = False, True, _PATTERN_BYTES
    try:
        return re2._Regexp(pattern, options)  # as `re2.compile`, which keeps the last 128 whatever they weigh
    except re2.error as failure:
        why = failure.args[0] if failure.args else ""
        return f"is no regular expression of RE2: {why.decode(errors='replace') if isinstance(why, bytes) else why}"


def _quoted(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else "?" for letter in text[:_QUOTED])
    return f'"{shown}{"..." if len(text) > _QUOTED else ""}"'
