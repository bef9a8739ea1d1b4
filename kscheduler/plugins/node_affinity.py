"""NodeAffinity: nodes that a pod requires or prefers by their labels or their name.

Requirements come from two sources: the pod (nodeSelector and node affinity), and the profile's `addedAffinity`, which
applies to every pod of the profile in addition. Where all required terms name nodes, only those nodes are judged.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from kscheduler.api.core import Node, NodeSelectorTerm, PreferredSchedulingTerm
from kscheduler.api.meta import KubeObject
from kscheduler.api.selectors import NodeTerm, Operator, Requirement, parse_node_term
from kscheduler.config.plugin_args import NodeAffinityArgs
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.plugin import Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.reasons.wording import requirement_facts, requirement_text, term_text
from kscheduler.framework.rules.scoring import default_normalize
from kscheduler.framework.status import SKIP, SUCCESS, Status, error, unresolvable

# Terms with the weights that they earn.
Preferences = tuple[tuple[NodeTerm, int], ...]


class _Preferred(msgspec.Struct, frozen=True):
    terms: Preferences


class NodeAffinity(Plugin):
    """Rejects nodes that do not match the required affinity; scores nodes by the preferred affinity."""

    name = "NodeAffinity"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    hints_by_spec = True
    judges_without_labels = True
    normalizes_points_only = True
    NOT_ENFORCED = -1
    NOT_MATCHED = -2
    reasons: ClassVar = {
        NOT_ENFORCED: "node(s) didn't match scheduler-enforced node affinity",
        NOT_MATCHED: "node(s) didn't match Pod's node affinity/selector",
    }

    def __init__(self, args: NodeAffinityArgs | None, handle: Handle) -> None:
        del handle
        added = args.added_affinity if args is not None else None
        required = added and added.required_during_scheduling_ignored_during_execution
        preferred = added.preferred_during_scheduling_ignored_during_execution if added else ()
        self._added_terms = _parsed_required(required.node_selector_terms) if required else None
        self._added_preferences = _parsed_preferred(preferred) if preferred else None

    @property
    def added_terms(self) -> Sequence[NodeTerm] | None:
        """The terms that the profile requires of every node, of which one must hold; `None`: it requires nothing."""
        return self._added_terms

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A new node, or new labels on a node: names never change, nor does the affinity of a pod without gates."""
        event = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return (ClusterEventWithHint(event, self._after_node_change),)

    def sign(self, pod: PodInfo) -> Hashable:
        """The pod's nodeSelector and node affinity."""
        return pod.node_selector, pod.node_affinity

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip where nothing is required; restrict to the named nodes where every term names some."""
        del cycle, nodes
        affinity = pod.node_affinity
        required = affinity and affinity.required_during_scheduling_ignored_during_execution
        if not required:
            requires_nothing = self._added_terms is None and pod.node_selector is None
            return PreFilterResult(SKIP if requires_nothing else SUCCESS)
        names = _node_names(required.node_selector_terms)
        if names is not None and not names:
            return PreFilterResult(unresolvable("pod affinity terms conflict", plugin=self.name))
        return PreFilterResult(SUCCESS, names)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """First the profile's required affinity, then the pod's: int64 [rows], 0 or a negative code."""
        del cycle
        codes = np.where(nodes.wanted_by(pod, rows), 0, self.NOT_MATCHED)
        if self._added_terms is not None:
            codes[~nodes.matches_any(self._added_terms, rows)] = self.NOT_ENFORCED
        return codes

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Status:
        """Skip where nothing is preferred. A term that cannot be parsed (`Gt`, no number) is an error, as upstream."""
        del nodes, rows
        affinity = pod.node_affinity
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        if not preferred and self._added_preferences is None:
            return SKIP
        try:
            own = _parsed_preferred(preferred)
        except ValueError as problem:
            return error(str(problem), plugin=self.name)
        cycle.write(_Preferred((*(self._added_preferences or ()), *own)))
        return SUCCESS

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        """The sum of the weights of the terms that match: int64 [rows]."""
        del pod
        total = np.zeros(len(rows), dtype=np.int64)
        for term, weight in cycle.read(_Preferred).terms:
            total += nodes.matches_term(term, rows) * weight
        return total

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        """Scaled so that the highest sum is 100: int64 [rows]."""
        del cycle, pod, rows
        return default_normalize(scores)

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which requirement of which term does not hold, and what the nodes have instead."""
        del cycle
        if not len(rows):
            yield Detail(
                "conflictingNodeNames", "the required terms name no node that all of a term's lists share", rows
            )
            return
        sources: list[tuple[str, tuple[NodeTerm, ...]]] = [
            ("the profile's addedAffinity", self._added_terms or ()),
            ("nodeSelector", (pod.node_selector,) if pod.node_selector is not None else ()),
            ("required node affinity", pod.required_node_terms or ()),
        ]
        for source, terms in sources:
            failing = rows[~nodes.matches_any(terms, rows)] if terms else rows[:0]
            if len(failing):
                yield _unmatched(source, terms, nodes, failing)

    def _after_node_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """A node that matches now and is new or did not match before."""
        if not isinstance(new, Node):
            return QueueingHint.QUEUE
        if self._added_terms is not None and not _node_matches_any(self._added_terms, new):
            return QueueingHint.SKIP
        matched_before = isinstance(old, Node) and _node_matches(pod, old)
        return QueueingHint.QUEUE if _node_matches(pod, new) and not matched_before else QueueingHint.SKIP


def _node_names(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """The nodes that the terms name: the intersection of each term's `metadata.name In` lists, united over the terms.

    `None` where a term names no node (so any node may match it) or there is no term.
    """
    found: set[str] | None = None
    for term in terms:
        lists = [
            requirement.values
            for requirement in term.match_fields
            if requirement.key == "metadata.name" and requirement.operator == "In"
        ]
        if not lists:
            return None
        found = found or set()
        found.update(frozenset(lists[0]).intersection(*lists[1:]))
    return None if found is None else frozenset(found)


def _node_matches(pod: PodInfo, node: Node) -> bool:
    """The rule of Filter for a single node object; queueing hints need it."""
    selector, required = pod.node_selector, pod.required_node_terms
    if selector is not None and not selector.matches(node.metadata.labels, node.metadata.name):
        return False
    return required is None or _node_matches_any(required, node)


def _node_matches_any(terms: Iterable[NodeTerm], node: Node) -> bool:
    return any(term.matches(node.metadata.labels, node.metadata.name) for term in terms)


def _unmatched(source: str, terms: Sequence[NodeTerm], nodes: NodeTable, rows: Rows) -> Detail:
    """Rows where none of the terms holds: which requirements of each term fail, and what the nodes have instead."""
    term_facts, texts = [], []
    for term in terms:
        failing = [each for each in (*term.labels, *term.fields) if _fails(each, term, nodes, rows)]
        found = [_found(each, term, nodes, rows) for each in failing]
        facts = [{**requirement_facts(each), "found": values} for each, values in zip(failing, found, strict=True)]
        term_facts.append({"term": term_text(term), "failing": facts})
        shown = [f"{requirement_text(each)}{_found_text(values)}" for each, values in zip(failing, found, strict=True)]
        texts.append(", ".join(shown) or term_text(term))
    if len(texts) == 1:
        text = f"{source}: {texts[0]}"
    else:
        text = f"{source}: none of {len(texts)} terms holds: {'; '.join(texts)}"
    return Detail("nodeLabelsMismatch", text, rows, {"source": source, "terms": term_facts})


def _found_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Such as ` (4 nodes have hdd, 2 nvme, 1 no such label)`."""
    most = 3 if len(found) > 4 else 4  # "1 other value" would be as long as the value
    shown = [
        f"{entry['nodes']} {'no such label' if entry['value'] is None else entry['value']}" for entry in found[:most]
    ]
    if not shown:
        return ""
    first = "1 node has" if found[0]["nodes"] == 1 else f"{found[0]['nodes']} nodes have"
    shown[0] = f"{first} {shown[0].partition(' ')[2]}"
    more = [f"{len(found) - most} other values"] if len(found) > most else []
    return f" ({', '.join([*shown, *more])})"


def _fails(requirement: Requirement, term: NodeTerm, nodes: NodeTable, rows: Rows) -> bool:
    """Whether the requirement does not hold on one of the rows."""
    return not nodes.matches_term(_alone(requirement, term), rows).all()


def _alone(requirement: Requirement, term: NodeTerm) -> NodeTerm:
    """The term as if it had this requirement only."""
    is_field = requirement in term.fields
    return NodeTerm(
        () if is_field else (requirement,), (requirement,) if is_field else (), requirement.operator is Operator.NEVER
    )


def _found(requirement: Requirement, term: NodeTerm, nodes: NodeTable, rows: Rows) -> list[dict[str, Any]]:
    """The label's values on the rows that fail, the most frequent first. Nothing is counted for `metadata.name`."""
    if requirement in term.fields:
        return []
    failing = rows[~nodes.matches_term(_alone(requirement, term), rows)]
    values = Counter(nodes.info(row).labels.get(requirement.key) for row in failing.tolist())
    ordered = sorted(values.items(), key=lambda entry: (-entry[1], entry[0] is not None, entry[0] or ""))
    return [{"value": value, "nodes": count} for value, count in ordered]


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not (term.match_expressions or term.match_fields)


def _parsed_required(terms: Sequence[NodeSelectorTerm]) -> tuple[NodeTerm, ...]:
    """A profile's required terms. Raises `ValueError` where one cannot be parsed."""
    path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    for position, term in enumerate(terms):
        if parse_node_term(term).nothing and not _is_empty(term):
            raise ValueError(f"parsing {path}: nodeSelectorTerms[{position}] has a requirement that cannot be parsed")
    return tuple(parse_node_term(term) for term in terms)


def _parsed_preferred(terms: Sequence[PreferredSchedulingTerm]) -> Preferences:
    """Terms that can earn something. Raises `ValueError` where one cannot be parsed."""
    parsed = []
    for position, term in enumerate(terms):
        if term.weight == 0 or _is_empty(term.preference):
            continue
        preference = parse_node_term(term.preference)
        if preference.nothing:
            raise ValueError(f"preferred node affinity term [{position}] has a requirement that cannot be parsed")
        parsed.append((preference, term.weight))
    return tuple(parsed)
