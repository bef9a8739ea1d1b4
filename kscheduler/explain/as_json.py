"""A decision as one JSON object.

There are two families of keys. Those of the recorded decisions (documented in tests/vectors) are compared key by key
when decisions are verified, so they are never renamed, removed or extended. All other facts have keys of their own.
`explanation.schema.json`, which `kscheduler explain --schema` prints, describes both.
"""

from collections.abc import Iterable
from importlib import resources
from typing import Any, Final

from kscheduler.explain.against import Against, against_tree, runner_up, runner_up_tree
from kscheduler.explain.explanation_keys import API_VERSION, explanation_keys
from kscheduler.explain.outcome import cycle_outcome, outcome_of
from kscheduler.explain.situation import NO_SITUATION, Situation
from kscheduler.explain.suggestions.as_json import suggestion_trees
from kscheduler.explain.suggestions.missing_claims import missing_claims
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.status import Code, Status
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.record import SchedulingRecord

Tree = dict[str, Any]

KIND: Final = "Explanation"

_NOTHING: Tree = {
    "error": None,
    "preEnqueue": None,
    "preFilter": None,
    "preFilterNodes": None,
    "filter": None,
    "feasible": None,
    "scores": None,
    "best": None,
    "message": "",
    "preemption": None,
    "preemptionCandidates": None,
}


def schema_text() -> str:
    """The JSON Schema of the result of `decision_tree`."""
    return resources.files("kscheduler.explain").joinpath("explanation.schema.json").read_text(encoding="utf-8")


def decision_tree(
    decision: Decision,
    situation: Situation = NO_SITUATION,
    notes: Iterable[str] = (),
    suggestions: Iterable[Suggestion] | None = None,
    compared: Against | None = None,
) -> Tree:
    """The decision as plain dicts and lists, always with the same keys.

    `suggestions`: `None` if none were looked for. `compared`: another node, if somebody asked.
    """
    pod = decision.scenario.pod
    cycle = cycle_outcome(decision)
    header = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "id": decision.scenario.id or pod.key,
        "pod": {
            "namespace": pod.metadata.namespace,
            "name": pod.metadata.name,
            "uid": pod.metadata.uid,
            "schedulerName": pod.spec.scheduler_name,
        },
        "outcome": outcome_of(decision, situation).value,
        "cycleOutcome": None if cycle is None else cycle.value,
        "isHypothetical": situation.is_hypothetical,
    }
    found = None if suggestions is None else suggestion_trees(suggestions, decision.scenario, situation)
    beside = None if compared is None else against_tree(compared)
    second = runner_up_tree(runner_up(decision, situation))
    missing = [*missing_claims(decision.scenario)] if found == [] else []
    reported = {"against": beside, "runnerUp": second, "suggestions": found, "missing": missing, "notes": list(notes)}
    return {**header, **_recorded_keys(decision), **explanation_keys(decision, situation), **reported}


def _recorded_keys(decision: Decision) -> Tree:
    if decision.error:
        return {**_NOTHING, "error": decision.error, "message": None}
    if decision.pre_enqueue is not None:
        return {**_NOTHING, "preEnqueue": status_tree(decision.pre_enqueue)}
    return {**_NOTHING, **_of_record(decision.record)} if decision.record is not None else dict(_NOTHING)


def _of_record(record: SchedulingRecord) -> Tree:
    if not record.num_all_nodes:
        return {"feasible": [], "message": record.message}
    rejected = record.diagnosis.pre_filter
    feasible = record.feasible_names()
    return {
        "preFilter": None if rejected.code is Code.SUCCESS else status_tree(rejected),
        "preFilterNodes": None if record.node_names is None or rejected.is_rejected else sorted(record.node_names),
        "filter": _filter(record.diagnosis),
        "feasible": sorted(feasible),
        "scores": _scores(record, feasible) if len(record.totals) else None,
        "best": sorted(record.best_names()) if feasible else None,
        "message": record.message,
        **_preemption(record),
    }


def _preemption(record: SchedulingRecord) -> Tree:
    """PostFilter's result, and every node where preemption would have made room."""
    if record.post_filter is None:
        return {}
    search = record.state.find(PreemptionSearch)
    outcome = {
        "status": record.post_filter.code.label,
        "message": record.post_filter_message,
        "nominatedNode": record.nominated_node_name or "",
        "victims": sorted(pod.name for pod in search.chosen.victims) if search is not None else [],
    }
    candidates = search.candidates() if search is not None else ()
    by_node = {
        candidate.node_name: {
            "victims": sorted(pod.name for pod in candidate.victims),
            "pdbViolations": candidate.broken_budgets,
        }
        for candidate in sorted(candidates, key=lambda candidate: candidate.node_name)
    }
    return {"preemption": outcome, "preemptionCandidates": by_node or None}


def status_tree(status: Status) -> Tree:
    """A status as a tree."""
    return {"status": status.code.label, "plugin": status.plugin, "reasons": list(status.reasons)}


def _filter(diagnosis: Diagnosis) -> Tree:
    by_node: Tree = {}
    for status, names in diagnosis.by_status():  # nodes share a tree: they are many, and statuses are few
        tree = {"plugin": status.plugin, "code": status.code.label, "reasons": sorted(status.reasons)}
        by_node.update(dict.fromkeys(names, tree))
    return {node: by_node[node] for node in sorted(by_node)}


def _scores(record: SchedulingRecord, feasible: list[str]) -> Tree:
    """For each node the weighted points of each plugin that did not skip, and their sum."""
    columns = {score.plugin: score.points.tolist() for score in record.scores}
    columns["_total"] = record.totals.tolist()
    by_node = {node: {plugin: points[at] for plugin, points in columns.items()} for at, node in enumerate(feasible)}
    return dict(sorted(by_node.items()))
