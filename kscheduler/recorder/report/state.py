"""Cache and queue as they were, for people and for programs."""

from collections.abc import Iterator, Mapping
from typing import Any

from kscheduler.answers import ResourceCapacity
from kscheduler.assembly import Assembly
from kscheduler.framework.reasons.wording import share_texts
from kscheduler.recorder.report.answers import (
    ReplayedNode,
    ReplayedNomination,
    ReplayedPermit,
    ReplayedPod,
    ReplayedPreemption,
    ReplayedState,
    ReplayedWait,
)
from kscheduler.recorder.report.of_replay import number_of
from kscheduler.recorder.report.times import time_text
from kscheduler.recorder.step_clock import MICROS
from kscheduler.scenario.capacity import capacity_of
from kscheduler.state.queue.queue_snapshot import FACTS
from kscheduler.text import BOLD, PLAIN, Style, aligned, printable


def replayed_state(assembly: Assembly, micros: int) -> ReplayedState:
    """All nodes by name, all waiting pods in the order in which they would be tried or asked."""
    cache, queue = assembly.cache, assembly.queue.snapshot()
    nominations = (cache.nominator.nomination(uid) for uid in cache.nominator.nominated())
    return ReplayedState(
        time=time_text(micros),
        nodes=tuple(_node(assembly, name) for name in sorted(cache.node_names())),
        queue=tuple(
            _waiting(assembly, each.place, pod.key, dict(zip(FACTS, facts, strict=True)))
            for each in queue.elements
            for pod, facts in each.members
        ),
        in_flight=tuple(key for _, key in queue.keys),
        nominated=tuple(ReplayedNomination(pod.key, node) for node, pod in (each for each in nominations if each)),
        waiting_for_permit=tuple(
            ReplayedPermit(held.pod.key, held.node_name, tuple(sorted(held.pending_plugins)))
            for held in assembly.waiting.all()
        ),
        preemptions=tuple(
            ReplayedPreemption(
                entry.preemption.text,
                entry.preemption.node_name,
                tuple(victim.key for victim in entry.preemption.victims),
            )
            for entry in assembly.evictions.running()
        ),
    )


def _waiting(assembly: Assembly, place: str, key: str, facts: Mapping[str, Any]) -> ReplayedWait:
    group = assembly.queue.waiting_group(key)
    if group is not None:  # a member moves and is tried with its group, and so does it back off
        times = ("attempts", "timestamp", "backoff_expiration")
        facts = {**facts, **{name: getattr(group, name) for name in times}}
    backoff = facts["backoff_expiration"] if place == "backoff" else 0.0
    return ReplayedWait(
        pod=key,
        place=place,
        attempts=facts["attempts"],
        since=time_text(int(facts["timestamp"] * MICROS)),
        backoff_until=time_text(int(backoff * MICROS)) if backoff else None,
        plugins=tuple(sorted(facts["unschedulable_plugins"] | facts["pending_plugins"])),
        gate=facts["gating_plugin"] or None,
        last_error=facts["last_error"] or None,
    )


def _node(assembly: Assembly, name: str) -> ReplayedNode:
    cache = assembly.cache
    info = cache.node_info(name)
    pods = [] if info is None else list(info.pods.values())
    row = cache.nodes.row_of(name)
    resources: dict[str, ResourceCapacity] = {}
    if row >= 0:
        rows = cache.nodes.rows()[cache.nodes.rows() == row]
        resources = capacity_of(cache.nodes, rows)
    on_it = tuple(ReplayedPod(pod.key, cache.is_assumed(pod.uid)) for pod in pods)
    return ReplayedNode(name, row >= 0, resources, on_it)


def state_text(state: ReplayedState, style: Style = PLAIN) -> str:
    """Without a final line end. Rows of its tables are not folded, as kubectl's are not."""
    return "\n".join(line.rstrip() for line in _lines(state, style))


def _lines(state: ReplayedState, style: Style) -> Iterator[str]:
    nodes, queue = state.nodes, state.queue
    yield f"{style.paint(state.time, BOLD)}: {number_of(len(nodes), 'node')}, {number_of(len(queue), 'waiting pod')}"
    yield from aligned([("NODE", "PODS", "ASSUMED", "CPU", "MEMORY"), *map(_node_row, nodes)], set())
    if queue:
        yield ""
        head = ("POD", "PLACE", "ATTEMPTS", "SINCE", "UNTIL", "REJECTED BY")
        yield from aligned([head, *map(_queue_row, queue)], set())
    if state.in_flight:
        yield f"being tried: {', '.join(map(printable, state.in_flight))}"
    for nominated in state.nominated:
        yield f"{printable(nominated.pod)} is expected on {printable(nominated.node)}"
    for held in state.waiting_for_permit:
        yield f"{printable(held.pod)} waits for {', '.join(held.plugins)} on {printable(held.node)}"
    for each in state.preemptions:
        victims = ", ".join(map(printable, each.victims))
        yield f"{printable(each.preemptor)} preempts on {printable(each.node)}: {victims}"


def _node_row(node: ReplayedNode) -> tuple[str, ...]:
    assumed = sum(pod.assumed for pod in node.pods)
    name = node.name if node.is_there else f"{node.name} (gone)"
    used = (_used(node.resources.get(resource), resource) for resource in ("cpu", "memory"))
    return printable(name), str(len(node.pods)), str(assumed or ""), *used


def _queue_row(waiting: ReplayedWait) -> tuple[str, ...]:
    rejectors = waiting.gate or ", ".join(waiting.plugins)
    backoff = waiting.backoff_until or ""
    return printable(waiting.pod), waiting.place, str(waiting.attempts), waiting.since, backoff, rejectors


def _used(amounts: ResourceCapacity | None, name: str) -> str:
    if amounts is None:
        return ""
    used, all_of_it = share_texts(name, amounts.requested, amounts.allocatable)
    return f"{used} of {all_of_it}"
