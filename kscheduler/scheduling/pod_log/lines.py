"""Every log line about pods: its name, the verbosity from which it is written, and its fields.

Levels are those of kube-scheduler where it has the same line (docs/logs.md shows its text). Each line begins with `pod`
(namespace/name) and `uid`; empty fields are left out. Fields that kube-scheduler also has are spelled like there
(`evaluatedNodes`), others in snake_case.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np

from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import Code, Status
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.telemetry.logs import verbose

# The result of each attempt and its consequences: enough to see why a pod is where it is.
OUTCOMES: Final = 2
# Each step, and each pod that shares its class's verdict.
STEPS: Final = 3
# Which event woke which pod, and which pods are gated.
WAKING: Final = 4
# Every move between queues; which plugin rejected how many nodes.
MOVES: Final = 5
# Which nodes were rejected.
NODES: Final = 6
# Points by plugin of the best nodes.
SCORES: Final = 10


class PodLine(msgspec.Struct, frozen=True):
    """One kind of line."""

    level: int
    fields: tuple[str, ...]
    """In addition to `pod` and `uid`."""


_VERDICT = ("message", "plugins", "attempts", "queue", "next_try_seconds", "waits_for", "like", "extender")

# By name. `class_not_scheduled` is about many pods and has no `pod` and `uid`.
LINES: Final[Mapping[str, PodLine]] = {
    "pod_bound": PodLine(
        OUTCOMES, ("node", "score", "evaluatedNodes", "feasibleNodes", "nodes", "attempts", "seconds", "nominated")
    ),
    "pod_not_scheduled": PodLine(OUTCOMES, _VERDICT),
    "class_not_scheduled": PodLine(OUTCOMES, ("pods", "first", "message", "plugins", "like")),
    "pod_let_go": PodLine(OUTCOMES, ("reason", "message", "attempts")),
    "pod_kept_out": PodLine(OUTCOMES, ("plugin", "message")),
    "pod_nominated": PodLine(OUTCOMES, ("node", "victims", "numVictims", "broken_budgets")),
    "pod_preempted": PodLine(OUTCOMES, ("node", "preemptor", "preemptor_uid", "how", "plugin")),
    "victim_spared": PodLine(OUTCOMES, ("node", "preemptor", "reason")),
    "victim_gone": PodLine(OUTCOMES, ("node", "preemptor", "how", "seconds")),
    "preemption_finished": PodLine(OUTCOMES, ("node", "result", "seconds")),
    "pod_waiting": PodLine(OUTCOMES, ("node", "point", "plugins", "timeout_seconds")),
    "bind_in_doubt": PodLine(OUTCOMES, ("node", "err")),
    "bind_not_sent": PodLine(WAKING, ("node", "err")),
    "bind_settled": PodLine(OUTCOMES, ("node", "outcome", "err")),
    "pod_added": PodLine(STEPS, ("priority", "profile", "nominated")),
    "pod_attempt": PodLine(STEPS, ("attempts", "profile")),
    "pod_assumed": PodLine(STEPS, ("node", "feasibleNodes")),
    "pod_skipped": PodLine(STEPS, ("reason",)),
    "pod_deleted": PodLine(STEPS, ("reason",)),
    "pod_woken": PodLine(WAKING, ("cluster_event", "queue", "pods", "next_try_seconds")),
    "pod_gated": PodLine(WAKING, ("plugin", "cluster_event")),
    "pod_wait_over": PodLine(WAKING, ("node", "point", "status", "seconds")),
    "pod_queued": PodLine(MOVES, ("cluster_event", "queue", "pods", "next_try_seconds")),
    "nodes_rejected": PodLine(MOVES, ("plugin", "reasons", "status", "nodes")),
    "node_rejected": PodLine(NODES, ("node", "plugin", "reasons", "status")),
    "plugin_scored_node": PodLine(SCORES, ("plugin", "node", "score", "weight")),
    "node_final_score": PodLine(SCORES, ("node", "score", "chosen")),
}


# Log lines about the nodes and points of a cycle's record, at high verbosity (-v 5, 6, 10).
#
# The number of lines per pod is bounded: `MAX_NODES` rejected nodes, `BEST_NODES` scored nodes. `explain` shows all.

MAX_NODES: Final = 100
BEST_NODES: Final = 10

# A line's name and fields.
LogLine = tuple[str, dict[str, Any]]


def lines_of(record: SchedulingRecord) -> Iterator[LogLine]:
    """The lines for the current verbosity, from 5."""
    yield from _by_plugin(record)
    if verbose(NODES):
        yield from islice(_by_node(record.diagnosis), MAX_NODES)
    if verbose(SCORES) and len(record.totals):
        yield from _points(record)


def _by_plugin(record: SchedulingRecord) -> Iterator[LogLine]:
    rejected = record.diagnosis.pre_filter
    if rejected.code is not Code.SUCCESS:
        yield "nodes_rejected", {**_verdict(rejected.plugin, rejected), "nodes": record.num_all_nodes}
    for rejection in record.diagnosis.rejections:
        for status, nodes in rejection.counted():
            yield "nodes_rejected", {**_verdict(rejection.plugin, status), "nodes": nodes}


def _by_node(diagnosis: Diagnosis) -> Iterator[LogLine]:
    for rejection in diagnosis.rejections:
        statuses: dict[int, Status] = {}
        for row, code in zip(rejection.rows.tolist(), rejection.codes.tolist(), strict=True):
            status = statuses.get(code)
            if status is None:
                status = statuses[code] = rejection.status_of(code)
            yield "node_rejected", {"node": diagnosis.names[row], **_verdict(rejection.plugin, status)}


def _verdict(plugin: str, status: Status) -> dict[str, Any]:
    return {"plugin": plugin, "reasons": list(status.reasons), "status": status.code.label}


def _points(record: SchedulingRecord) -> Iterator[LogLine]:
    """The nodes with the most points, the best first; among equals, the chosen node comes first."""
    is_other = np.array([record.diagnosis.names[row] != record.node_name for row in record.feasible.tolist()])
    best = np.lexsort((is_other, -record.totals))[:BEST_NODES].tolist()
    names = {place: record.diagnosis.names[int(record.feasible[place])] for place in best}
    for place in best:
        for scores in record.scores:
            fields = {"node": names[place], "score": int(scores.points[place]), "weight": scores.weight}
            yield "plugin_scored_node", {"plugin": scores.plugin, **fields}
        is_chosen = names[place] == record.node_name
        yield "node_final_score", {"node": names[place], "score": int(record.totals[place]), "chosen": is_chosen}


# Pods that are rejected with their class, in one line.
#
# A hundred thousand pods that fit nowhere may share one verdict. The pod that went through the cycle has a line of its
# own. Pods that were rejected with the same verdict are counted here, and once a second a line per class is written:
# how many, the first few names, and which pod went through the cycle (`like`).

FIRST_NAMES: Final = 5
# Classes that wait for their line: if there are more, the lines are written at once.
MAX_CLASSES: Final = 100


@dataclass(slots=True)
class _Together:
    """Pods with one verdict."""

    message: str
    plugins: list[str]
    like: str
    pods: int = 0
    first: list[str] = field(default_factory=list)


class RejectedPodsBatch:
    """Counts rejected pods by class and message."""

    def __init__(self) -> None:
        self._classes: dict[tuple[Hashable, str], _Together] = {}

    @property
    def is_full(self) -> bool:
        """Whether the lines should be written now."""
        return len(self._classes) >= MAX_CLASSES

    def add(self, name: Hashable, keys: Collection[str], message: str, plugins: Collection[str], like: str) -> None:
        """Add pods of a class that were rejected with the verdict for the pod `like`. `keys` is not kept."""
        together = self._classes.get((name, message))
        if together is None:
            together = self._classes[name, message] = _Together(message, sorted(plugins), like)
        others = (key for key in keys if key != like)
        while len(together.first) < FIRST_NAMES and (key := next(others, None)) is not None:
            together.first.append(key)
        together.pods += len(keys) - (like in keys)

    def take(self) -> Iterator[dict[str, Any]]:
        """The fields of one line per class; the counts start again at zero."""
        classes, self._classes = self._classes, {}
        for together in classes.values():
            fields = {"pods": together.pods, "first": together.first, "message": together.message}
            yield {**fields, "plugins": together.plugins, "like": together.like}
