"""Every line of a pod's story: its name, from which verbosity it is written, and its fields.

Levels are kube-scheduler's where it has the same line (its words stand in docs/logs.md). Each line begins with `pod`
(namespace/name) and `uid`; a field with nothing to say is left out. Fields are spelled as klog's users know them
(`evaluatedNodes`), and in snake_case where kube-scheduler has no such field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OUTCOMES: Final = 2
"""How each attempt ended, and what was done for it: enough to tell why a pod is where it is."""
STEPS: Final = 3
"""Each step, and each pod that shares its class's verdict."""
WAKING: Final = 4
"""Who was woken by what, and who is gated."""
MOVES: Final = 5
"""Every move between queues; which plugin turned down how many nodes."""
NODES: Final = 6
"""Which nodes."""
SCORES: Final = 10
"""Points by plugin of the best nodes."""


@dataclass(frozen=True, slots=True)
class PodLine:
    """One kind of line."""

    level: int
    fields: tuple[str, ...]
    """Beside `pod` and `uid`."""


_VERDICT = ("message", "plugins", "attempts", "queue", "next_try_seconds", "waits_for", "like")

LINES: Final[Mapping[str, PodLine]] = {
    "pod_bound": PodLine(
        OUTCOMES, ("node", "score", "evaluatedNodes", "feasibleNodes", "nodes", "attempts", "seconds", "nominated")
    ),
    "pod_not_scheduled": PodLine(OUTCOMES, _VERDICT),
    "class_not_scheduled": PodLine(OUTCOMES, ("pods", "first", "message", "plugins", "like")),
    "pod_let_go": PodLine(OUTCOMES, ("reason", "message", "attempts")),
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
"""By name. `class_not_scheduled` tells of many pods and has no `pod` and `uid` of its own."""
