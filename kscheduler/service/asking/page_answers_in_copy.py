"""What a copy of the process answers to the status page: called in the copy, imported with the first question.

It runs in the copy, and may change what it likes.
"""

from collections.abc import Iterable, Sequence

import msgspec

from kscheduler.answers.suggestions import HelpingChange
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.server.status_page.sources import NodeVerdict
from kscheduler.service.asking.helping_changes import changes_by_reason, gates_to_remove, pending_of
from kscheduler.service.parts import Parts


def changes_or_gates(parts: Parts, as_of: float, *, reasons: Sequence[Sequence[str]]) -> bytes:
    """The change that frees most pods of each reason, as JSON by the key of the reason's first pod.

    Where none does and pods are gated, that the gates must go first.
    """
    del as_of
    found = changes_by_reason(parts, reasons)
    for keys in reasons:
        if not keys or ((known := found.get(keys[0])) is not None and known.change is not None):
            continue
        first = gates_to_remove(parts, keys)
        if first is not None:
            found[keys[0]] = HelpingChange(first_step=first)
    return msgspec.json.encode(found)


def verdicts(parts: Parts, as_of: float, *, node_name: str, keys: Sequence[str]) -> bytes:
    """What the cycle says of each of these pending pods on one node, as JSON."""
    del as_of
    return msgspec.json.encode([*_verdicts(parts, node_name, keys)])


def _verdicts(parts: Parts, node_name: str, keys: Iterable[str]) -> Iterable[NodeVerdict]:
    cache = parts.assembly.cache
    for pod, profile in pending_of(parts, keys):
        gate = profile.run_pre_enqueue(pod)
        if gate.is_rejected:
            yield NodeVerdict(pod.key, gate.plugin, tuple(gate.reasons))
            continue
        record = schedule(profile, pod, cache)
        whole = record.diagnosis.pre_filter
        if whole.is_rejected:
            yield NodeVerdict(pod.key, whole.plugin, tuple(whole.reasons))
            continue
        status = next((status for name, status in record.diagnosis.by_node() if name == node_name), None)
        search = record.state.find(PreemptionSearch)
        here = () if search is None else [each for each in search.candidates() if each.node_name == node_name]
        victims = tuple(victim.key for candidate in here for victim in candidate.victims)
        if status is None or victims:
            yield NodeVerdict(pod.key, "", (), victims)
        else:
            yield NodeVerdict(pod.key, status.plugin or "PreFilter", tuple(status.reasons))
