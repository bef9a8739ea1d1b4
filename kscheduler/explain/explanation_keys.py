"""The keys of an explanation that are not in recorded decisions."""

from typing import Any, Final

from kscheduler.explain.devices import devices_by_node
from kscheduler.explain.extenders import ExtenderRole, extender_roles
from kscheduler.explain.own_plugins import source_of
from kscheduler.explain.rejections import NamedDetail, PluginRejections, named_details, plugin_rejections
from kscheduler.explain.situation import Situation
from kscheduler.framework.cluster.preemption import Candidate, PreemptionSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.rules.scoring import TIE_RULE
from kscheduler.framework.status import Code
from kscheduler.scenario.decide import Decision, pods_going, without_nomination
from kscheduler.scheduling.cycle.rejection_details import raw_scores
from kscheduler.scheduling.record import SchedulingRecord

Tree = dict[str, Any]

# Becomes `v2` when a key is removed or changes its meaning; keys may be added at any time.
API_VERSION: Final = "explain.kscheduler.io/v1"
_NO_RECORD: Final[Tree] = {
    "node": None,
    "nodeCount": None,
    "evaluatedCount": None,
    "feasibleCount": None,
    "rejections": None,
    "preFilterDetails": None,
    "rawScores": None,
    "weights": None,
    "devices": None,
    "tieBreak": None,
    "nomination": None,
    "preemptionDetails": None,
}


def explanation_keys(decision: Decision, situation: Situation) -> Tree:
    """All keys; null where there is no value."""
    record = decision.record
    return {
        "profile": decision.profile.name if decision.profile is not None else None,
        **(_NO_RECORD if record is None else _of_record(decision, record)),
        "extenders": [_extender(role) for role in extender_roles(decision)],
        "situation": _situation(situation) if situation.is_live else None,
    }


def _extender(role: ExtenderRole) -> Tree:
    return {
        "url": role.url,
        "verbs": list(role.verbs),
        "ignorable": role.is_ignorable,
        "asked": role.was_queried,
        "turnedDown": role.rejected,
        "failure": role.failure or None,
    }


def _of_record(decision: Decision, record: SchedulingRecord) -> Tree:
    rejections = plugin_rejections(decision, record)
    rejected = record.diagnosis.pre_filter
    pre_filter_details = named_details(decision, record).get(rejected.plugin, ()) if rejected.is_rejected else ()
    return {
        "node": record.node_name or None,
        "nodeCount": record.num_all_nodes,
        "evaluatedCount": record.num_evaluated_nodes,
        "feasibleCount": len(record.feasible),
        "rejections": [_rejection(decision, by_plugin) for by_plugin in rejections],
        "preFilterDetails": [_detail(detail) for detail in pre_filter_details],
        **_points(decision, record),
        "devices": _devices(decision, record),
        "tieBreak": _tie(record),
        "nomination": _nomination(decision, record),
        "preemptionDetails": _preemption(record),
    }


def _rejection(decision: Decision, rejections: PluginRejections) -> Tree:
    statuses = [
        {
            "code": status.code.label,
            "reasons": list(status.reasons),
            "preemptionMightHelp": status.code is Code.UNSCHEDULABLE,
            "nodes": list(names),
        }
        for status, names in rejections.by_status.items()
    ]
    details = [_detail(detail) for detail in rejections.details]
    source = source_of(decision.profile, rejections.plugin) or None
    return {
        "plugin": rejections.plugin,
        "source": source,
        "count": rejections.count,
        "statuses": statuses,
        "details": details,
    }


def _detail(named: NamedDetail) -> Tree:
    return {
        "kind": named.detail.kind,
        "text": named.detail.text,
        "nodes": list(named.node_names),
        "besideNominatedPods": list(named.beside),
        "facts": dict(named.detail.facts),
    }


def _points(decision: Decision, record: SchedulingRecord) -> Tree:
    if not len(record.totals) or decision.profile is None or decision.cache is None:
        return {"rawScores": None, "weights": None}
    columns = {
        name: points.tolist() for name, points in raw_scores(decision.profile, record, decision.cache.nodes).items()
    }
    by_node = {
        node: {plugin: points[at] for plugin, points in columns.items()}
        for at, node in enumerate(record.feasible_names())
    }
    return {
        "rawScores": dict(sorted(by_node.items())),
        "weights": {score.plugin: score.weight for score in record.scores},
    }


def _devices(decision: Decision, record: SchedulingRecord) -> Tree | None:
    by_node = devices_by_node(decision, record)
    return {name: [each.tree for each in found] for name, found in sorted(by_node.items())} or None


def _tie(record: SchedulingRecord) -> Tree | None:
    best = sorted(record.best_names())
    if not record.node_name or len(best) < 2:
        return None
    return {"rule": TIE_RULE, "nodes": best, "winner": record.node_name, "podHasUID": bool(record.pod.pod.metadata.uid)}


def _nomination(decision: Decision, record: SchedulingRecord) -> Tree | None:
    node = record.pod.pod.status.nominated_node_name
    if not node:
        return None
    alternative = without_nomination(decision)
    return {
        "node": node,
        "exists": node in record.diagnosis.names,
        "passes": node in record.feasible_names(),
        "onlyNodeTried": record.only_nominated,
        "podsBeingDeleted": list(pods_going(decision, node)),
        "withoutIt": None if alternative is None else _without_it(decision, alternative),
    }


def _without_it(decision: Decision, record: SchedulingRecord) -> Tree:
    return {
        "node": record.node_name or None,
        "evaluatedCount": record.num_evaluated_nodes,
        "feasibleCount": len(record.feasible),
        "feasible": sorted(record.feasible_names()),
        "best": sorted(record.best_names()) if len(record.feasible) else [],
        "rejections": [_rejection(decision, by_plugin) for by_plugin in plugin_rejections(decision, record)],
    }


def _preemption(record: SchedulingRecord) -> Tree | None:
    search = record.state.find(PreemptionSearch)
    if search is None:
        return None
    candidates = sorted(search.candidates(), key=lambda candidate: candidate.node_name)
    return {"chosen": _candidate(search.chosen), "candidates": [_candidate(candidate) for candidate in candidates]}


def _candidate(candidate: Candidate) -> Tree:
    victims = [_victim(pod) for pod in candidate.victims]
    return {"node": candidate.node_name, "victims": victims, "pdbViolations": candidate.broken_budgets}


def _victim(pod: PodInfo) -> Tree:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "priority": pod.priority,
        "startTime": pod.pod.status.start_time,
    }


def _situation(situation: Situation) -> Tree:
    condition = situation.condition
    return {
        "standing": situation.pod_state.value,
        "phase": situation.phase,
        "nodeName": situation.node_name,
        "deletionTimestamp": situation.deleted_at or None,
        "podScheduled": None
        if condition is None
        else {
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
            "lastTransitionTime": condition.last_transition_time,
        },
        "nominatedNodeName": situation.nominated_node,
        "claims": [
            {
                "name": claim.name,
                "exists": claim.exists,
                "isBound": claim.is_bound,
                "volume": claim.volume,
                "storageClass": claim.storage_class,
                "volumeBindingMode": claim.binding_mode,
                "provisioner": claim.provisioner,
                "selectedNode": claim.selected_node,
            }
            for claim in situation.claims
        ],
        "waitsForVolumes": [claim.name for claim in situation.waits_for_volumes],
        "waitsForDevices": [
            {
                "claim": wait.claim,
                "device": wait.device,
                "conditions": list(wait.conditions),
                "since": wait.since or None,
                "until": wait.until or None,
            }
            for wait in situation.device_waits
        ],
        "servedSchedulerNames": list(situation.served),
        "origin": situation.origin or None,
        "inService": None if situation.in_service is None else situation.in_service.tree,
    }
