"""A decision about a pod as its typed answer."""

from collections.abc import Iterable, Mapping

from kscheduler.explain.against import runner_up
from kscheduler.explain.answer import (
    Against,
    CandidateVictims,
    ClaimedDevice,
    NamedDetail,
    NodeVerdictAnswer,
    NominationAnswer,
    PodExplanation,
    PodName,
    Points,
    PreemptionCandidate,
    PreemptionDetails,
    PreemptionOutcome,
    RunnerUp,
    StatusAnswer,
    TieBreak,
    Victim,
    WithoutNomination,
)
from kscheduler.explain.devices import devices_by_node
from kscheduler.explain.extenders import extender_roles
from kscheduler.explain.outcome import cycle_outcome, outcome_of
from kscheduler.explain.rejections import named_details, plugin_rejections
from kscheduler.explain.situation import NO_SITUATION, Situation
from kscheduler.explain.suggestions.as_answer import suggestion_answers
from kscheduler.explain.suggestions.missing_claims import missing_claims
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.framework.cluster.preemption import Candidate, PreemptionSearch
from kscheduler.framework.reasons.diagnosis import Diagnosis
from kscheduler.framework.rules.scoring import TIE_RULES
from kscheduler.framework.status import Code, Status
from kscheduler.scenario.decide import Decision, pods_going, without_nomination
from kscheduler.scheduling.cycle.rejection_details import raw_scores
from kscheduler.scheduling.record import SchedulingRecord


def pod_explanation(
    decision: Decision,
    situation: Situation = NO_SITUATION,
    notes: Iterable[str] = (),
    suggestions: Iterable[Suggestion] | None = None,
    compared: Against | None = None,
) -> PodExplanation:
    """The answer about a pod.

    `suggestions`: `None` if none were looked for. `compared`: another node, if somebody asked.
    """
    pod, record = decision.scenario.pod, decision.record
    # Of a pod that was gated or could not be judged there are no recorded keys; without nodes there are hardly any.
    recorded = None if decision.error or decision.pre_enqueue is not None else record
    judged = recorded if recorded is not None and recorded.num_all_nodes else None
    raw, weights = (None, None) if record is None else _raw_points(decision, record)
    found = None if suggestions is None else suggestion_answers(suggestions, decision.scenario, situation)
    second = runner_up(decision, situation)
    return PodExplanation(
        id=decision.scenario.id or pod.key,
        pod=PodName(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid, pod.spec.scheduler_name),
        outcome=outcome_of(decision, situation),
        cycle_outcome=cycle_outcome(decision),
        is_hypothetical=situation.is_hypothetical,
        # the keys of recorded decisions
        error=decision.error or None,
        pre_enqueue=None if decision.error or decision.pre_enqueue is None else status_answer(decision.pre_enqueue),
        pre_filter=None if judged is None else _pre_filter(judged),
        pre_filter_nodes=None if judged is None else _pre_filter_nodes(judged),
        filter=None if judged is None else _filter(judged.diagnosis),
        feasible=None if recorded is None else tuple(sorted(recorded.feasible_names())),
        scores=None if judged is None else _scores(judged),
        best=None if judged is None or not len(judged.feasible) else tuple(sorted(judged.best_names())),
        message=None if decision.error else "" if recorded is None else recorded.message,
        preemption=None if judged is None else _preemption(judged),
        preemption_candidates=None if judged is None else _preemption_candidates(judged),
        # what else is known of the cycle
        profile=decision.profile.name if decision.profile is not None else None,
        node=None if record is None else record.node_name or None,
        node_count=None if record is None else record.num_all_nodes,
        evaluated_count=None if record is None else record.num_evaluated_nodes,
        feasible_count=None if record is None else len(record.feasible),
        rejections=None if record is None else plugin_rejections(decision, record),
        pre_filter_details=None if record is None else _pre_filter_details(decision, record),
        raw_scores=raw,
        weights=weights,
        devices=None if record is None else _devices(decision, record),
        tie_break=None if record is None else _tie(decision, record),
        nomination=None if record is None else _nomination(decision, record),
        preemption_details=None if record is None else _preemption_details(record),
        extenders=extender_roles(decision),
        # what stands beside it
        situation=situation.answer,
        against=compared,
        runner_up=None if second is None else RunnerUp(second.node, second.behind),
        suggestions=found,
        missing=tuple(missing_claims(decision.scenario)) if found == () else (),
        emulation_version=decision.scenario.config.gates.version,
        notes=tuple(notes),
    )


# --- the keys of recorded decisions -----------------------------------------------------------------------------------


def _pre_filter(record: SchedulingRecord) -> StatusAnswer | None:
    rejected = record.diagnosis.pre_filter
    return None if rejected.code is Code.SUCCESS else status_answer(rejected)


def _pre_filter_nodes(record: SchedulingRecord) -> tuple[str, ...] | None:
    if record.node_names is None or record.diagnosis.pre_filter.is_rejected:
        return None
    return tuple(sorted(record.node_names))


def status_answer(status: Status) -> StatusAnswer:
    """What a plugin says of the pod as a whole."""
    return StatusAnswer(status.code.label, status.plugin, tuple(status.reasons))


def _filter(diagnosis: Diagnosis) -> dict[str, NodeVerdictAnswer]:
    by_node: dict[str, NodeVerdictAnswer] = {}
    for status, names in diagnosis.by_status():  # nodes share an answer: they are many, and statuses are few
        answer = NodeVerdictAnswer(status.plugin, status.code.label, tuple(sorted(status.reasons)))
        by_node.update(dict.fromkeys(names, answer))
    return {node: by_node[node] for node in sorted(by_node)}


def _scores(record: SchedulingRecord) -> Points | None:
    """For each node the weighted points of each plugin that did not skip, and their sum."""
    if not len(record.totals):
        return None
    columns = {score.plugin: score.points.tolist() for score in record.scores}
    columns["_total"] = record.totals.tolist()
    return _by_node(columns, record)


def _by_node(columns: Mapping[str, list[int]], record: SchedulingRecord) -> Points:
    feasible = enumerate(record.feasible_names())
    by_node = {node: {plugin: points[at] for plugin, points in columns.items()} for at, node in feasible}
    return dict(sorted(by_node.items()))


def _preemption(record: SchedulingRecord) -> PreemptionOutcome | None:
    if record.post_filter is None:
        return None
    search = record.state.find(PreemptionSearch)
    return PreemptionOutcome(
        status=record.post_filter.code.label,
        message=record.post_filter_message,
        nominated_node=record.nominated_node_name or "",
        victims=() if search is None else tuple(sorted(pod.name for pod in search.chosen.victims)),
    )


def _preemption_candidates(record: SchedulingRecord) -> dict[str, CandidateVictims] | None:
    """Every node where preemption would have made room."""
    search = None if record.post_filter is None else record.state.find(PreemptionSearch)
    candidates = () if search is None else search.candidates()
    by_node = {
        candidate.node_name: CandidateVictims(
            tuple(sorted(pod.name for pod in candidate.victims)), candidate.broken_budgets
        )
        for candidate in sorted(candidates, key=lambda candidate: candidate.node_name)
    }
    return by_node or None


# --- what else is known of a cycle ------------------------------------------------------------------------------------


def _pre_filter_details(decision: Decision, record: SchedulingRecord) -> tuple[NamedDetail, ...]:
    rejected = record.diagnosis.pre_filter
    return named_details(decision, record).get(rejected.plugin, ()) if rejected.is_rejected else ()


def _raw_points(decision: Decision, record: SchedulingRecord) -> tuple[Points | None, dict[str, int] | None]:
    """The points before normalising, and the weights by plugin."""
    if not len(record.totals) or decision.profile is None or decision.cache is None:
        return None, None
    raw = raw_scores(decision.profile, record, decision.cache.nodes)
    columns = {name: points.tolist() for name, points in raw.items()}
    return _by_node(columns, record), {score.plugin: score.weight for score in record.scores}


def _devices(decision: Decision, record: SchedulingRecord) -> dict[str, tuple[ClaimedDevice, ...]] | None:
    by_node = devices_by_node(decision, record)
    return {name: tuple(found) for name, found in sorted(by_node.items())} or None


def _tie(decision: Decision, record: SchedulingRecord) -> TieBreak | None:
    best = tuple(sorted(record.best_names()))
    if not record.node_name or len(best) < 2:
        return None
    return TieBreak(TIE_RULES[decision.tie_rule], best, record.node_name, bool(record.pod.pod.metadata.uid))


def _nomination(decision: Decision, record: SchedulingRecord) -> NominationAnswer | None:
    node = record.pod.pod.status.nominated_node_name
    if not node:
        return None
    alternative = without_nomination(decision)
    return NominationAnswer(
        node=node,
        exists=node in record.diagnosis.names,
        passes=node in record.feasible_names(),
        only_node_tried=record.only_nominated,
        pods_being_deleted=tuple(pods_going(decision, node)),
        without_it=None if alternative is None else _without_it(decision, alternative),
    )


def _without_it(decision: Decision, record: SchedulingRecord) -> WithoutNomination:
    return WithoutNomination(
        node=record.node_name or None,
        evaluated_count=record.num_evaluated_nodes,
        feasible_count=len(record.feasible),
        feasible=tuple(sorted(record.feasible_names())),
        best=tuple(sorted(record.best_names())) if len(record.feasible) else (),
        rejections=plugin_rejections(decision, record),
    )


def _preemption_details(record: SchedulingRecord) -> PreemptionDetails | None:
    search = record.state.find(PreemptionSearch)
    if search is None:
        return None
    candidates = sorted(search.candidates(), key=lambda candidate: candidate.node_name)
    return PreemptionDetails(_candidate(search.chosen), tuple(map(_candidate, candidates)))


def _candidate(candidate: Candidate) -> PreemptionCandidate:
    victims = tuple(
        Victim(pod.namespace, pod.name, pod.priority, pod.pod.status.start_time) for pod in candidate.victims
    )
    return PreemptionCandidate(candidate.node_name, victims, candidate.broken_budgets)
