"""From which rows a volume can be reached, and which rows a topology selects.

A volume's affinity is compared with labels only: upstream matches it against a node without fields, so requirements on
`metadata.name` are ignored. A term with no other requirement matches every node.
"""

from collections.abc import Iterable

import numpy as np

from kscheduler.api.core import LabelSelector, Node, NodeSelectorTerm
from kscheduler.api.selectors import NodeTerm, Operator, Requirement, Selector, parse_label_selector, parse_node_term
from kscheduler.api.storage import PersistentVolume, TopologySelectorTerm, VolumeNodeAffinity
from kscheduler.bounded import RecentlyUsed, RecentlyUsedByWeight, weight_of
from kscheduler.framework.cluster.volumes import Volumes
from kscheduler.framework.nodes.label_column import Mask
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.rules import csi_migration


def reachable(volume: PersistentVolume, nodes: NodeTable, rows: Rows) -> Mask:
    """Rows that the volume's own affinity admits, bool [rows]."""
    return _admitted(volume.spec.node_affinity, nodes, rows)


def reachable_as_migrated(volume: PersistentVolume, volumes: Volumes, nodes: NodeTable, rows: Rows) -> Mask:
    """As `reachable`, bool [rows], with an in-tree volume translated to CSI where its plugin is migrated.

    Raises `ValueError` if the volume cannot be translated.
    """
    plugin = csi_migration.plugin_of(volume.spec)
    if plugin:
        at = volumes.migrated_rows(plugin)
        if at is nodes.rows() and len(rows):
            return _admitted(_translated(volume), nodes, rows)
        migrated = np.isin(rows, at)
        if migrated.any():
            mask = reachable(volume, nodes, rows)
            mask[migrated] = _admitted(_translated(volume), nodes, rows[migrated])
            return mask
    return reachable(volume, nodes, rows)


def reaches(volume: PersistentVolume, volumes: Volumes, node: Node) -> bool:
    """As `reachable_as_migrated`, for a single node. Raises `ValueError`."""
    plugin = csi_migration.plugin_of(volume.spec)
    is_migrated = bool(plugin) and volumes.is_migrated(node.metadata.name, plugin)
    affinity = _translated(volume) if is_migrated else volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if required is None:
        return True
    terms, labels = map(_parsed_term, required.node_selector_terms), node.metadata.labels
    return any(not term.nothing and all(each.matches(labels) for each in term.labels) for term in terms)


def in_topology(terms: Iterable[TopologySelectorTerm], nodes: NodeTable, rows: Rows) -> Mask:
    """Rows that at least one term admits, bool [rows]; without terms, all rows."""
    terms = tuple(terms)
    if not terms:
        return np.ones(len(rows), dtype=np.bool_)
    mask = np.zeros(len(rows), dtype=np.bool_)
    for term in terms:
        labels = [(label.key, frozenset(label.values)) for label in term.match_label_expressions]
        if labels and all(values for _, values in labels):
            mask |= _all_hold([Requirement(key, Operator.IN, values) for key, values in labels], nodes, rows)
    return mask


def selected(selector: LabelSelector | None, nodes: NodeTable, rows: Rows) -> Mask:
    """Rows whose labels the selector matches, bool [rows]; a missing selector matches none."""
    parsed = _parsed_selector(selector) if selector is not None else None
    if parsed is None or parsed.nothing:
        return np.zeros(len(rows), dtype=np.bool_)
    return _all_hold(parsed.requirements, nodes, rows)


def _translated(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    try:
        return csi_migration.translated_affinity(volume)
    except ValueError as problem:
        raise ValueError(f"could not translate pv: {problem}") from None


def _admitted(affinity: VolumeNodeAffinity | None, nodes: NodeTable, rows: Rows) -> Mask:
    required = affinity.required if affinity is not None else None
    if required is None:
        return np.ones(len(rows), dtype=np.bool_)
    terms = required.node_selector_terms
    if len(terms) == 1:
        return _term_holds(_parsed_term(terms[0]), nodes, rows)
    mask = np.zeros(len(rows), dtype=np.bool_)
    for term in terms:
        mask |= _term_holds(_parsed_term(term), nodes, rows)
    return mask


def _term_holds(term: NodeTerm, nodes: NodeTable, rows: Rows) -> Mask:
    if term.nothing:
        return np.zeros(len(rows), dtype=np.bool_)
    return _all_hold(term.labels, nodes, rows)


def _all_hold(requirements: Iterable[Requirement], nodes: NodeTable, rows: Rows) -> Mask:
    mask: Mask | None = None
    for requirement in requirements:
        holds = nodes.matches(requirement, rows)
        mask = holds if mask is None else mask & holds
    return mask if mask is not None else np.ones(len(rows), dtype=np.bool_)


_parsed: RecentlyUsed[NodeSelectorTerm, NodeTerm] = RecentlyUsedByWeight(
    16_384, 4 * 2**20, lambda term, _: weight_of(term)
)


def _parsed_term(term: NodeSelectorTerm) -> NodeTerm:
    parsed = _parsed.use(term)
    if parsed is None:
        parsed = _parsed[term] = parse_node_term(term)
    return parsed


def _parsed_selector(selector: LabelSelector) -> Selector:
    return parse_label_selector(selector)
