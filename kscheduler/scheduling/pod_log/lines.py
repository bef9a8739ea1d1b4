"""Every log line about pods: its name, the verbosity from which it is written, and its fields.

Levels are those of kube-scheduler where it has the same line (docs/logs.md shows its text). Each line begins with `pod`
(namespace/name) and `uid`; empty fields are left out. Fields that kube-scheduler also has are spelled like there
(`evaluatedNodes`), others in snake_case.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OUTCOMES: Final = 2
"""The result of each attempt and its consequences: enough to see why a pod is where it is."""
STEPS: Final = 3
"""Each step, and each pod that shares its class's verdict."""
WAKING: Final = 4
"""Which event woke which pod, and which pods are gated."""
MOVES: Final = 5
"""Every move between queues; which plugin rejected how many nodes."""
NODES: Final = 6
"""Which nodes were rejected."""
SCORES: Final = 10
"""Points by plugin of the best nodes."""


@dataclass(frozen=True, slots=True)
class PodLine:
    """One kind of line."""

    level: int
    fields: tuple[str, ...]
    """In addition to `pod` and `uid`."""


_VERDICT = ("message", "plugins", "attempts", "queue", "next_try_seconds", "waits_for", "like", "extender")

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
"""By name. `class_not_scheduled` is about many pods and has no `pod` and `uid`."""
