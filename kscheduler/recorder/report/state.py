"""Cache and queue as they were: plain values for text and JSON."""

from typing import Any, Final

from kscheduler.assembly import Assembly
from kscheduler.recorder.report.times import time_text
from kscheduler.recorder.step_clock import MICROS
from kscheduler.state.queue.queue_snapshot import FACTS

Tree = dict[str, Any]
API_VERSION: Final = "replay.kscheduler.io/v1"
KIND: Final = "ReplayedState"


def state_tree(assembly: Assembly, micros: int) -> Tree:
    """All nodes by name, all waiting pods in the order in which they would be tried or asked."""
    cache, queue = assembly.cache, assembly.queue.snapshot()
    waiting = [
        _waiting(assembly, each.place, pod.key, dict(zip(FACTS, facts, strict=True)))
        for each in queue.elements
        for pod, facts in each.members
    ]
    nominations = (cache.nominator.nomination(uid) for uid in cache.nominator.nominated())
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "time": time_text(micros),
        "nodes": [_node(assembly, name) for name in sorted(cache.node_names())],
        "queue": waiting,
        "inFlight": [key for _, key in queue.keys],
        "nominated": [{"pod": pod.key, "node": node} for node, pod in (each for each in nominations if each)],
        "waitingForPermit": [
            {"pod": held.pod.key, "node": held.node_name, "plugins": sorted(held.pending_plugins)}
            for held in assembly.waiting.all()
        ],
        "preemptions": [
            {
                "preemptor": entry.preemption.text,
                "node": entry.preemption.node_name,
                "victims": [victim.key for victim in entry.preemption.victims],
            }
            for entry in assembly.evictions.running()
        ],
    }


def _waiting(assembly: Assembly, place: str, key: str, facts: dict[str, Any]) -> Tree:
    group = assembly.queue.waiting_group(key)
    if group is not None:  # a member moves and is tried with its group, and so does it back off
        times = ("attempts", "timestamp", "backoff_expiration")
        facts = facts | {name: getattr(group, name) for name in times}
    plugins = sorted(facts["unschedulable_plugins"] | facts["pending_plugins"])
    backoff = facts["backoff_expiration"] if place == "backoff" else 0.0
    return {
        "pod": key,
        "place": place,
        "attempts": facts["attempts"],
        "since": time_text(int(facts["timestamp"] * MICROS)),
        "backoffUntil": time_text(int(backoff * MICROS)) if backoff else None,
        "plugins": plugins,
        "gate": facts["gating_plugin"] or None,
        "lastError": facts["last_error"] or None,
    }


def _node(assembly: Assembly, name: str) -> Tree:
    cache = assembly.cache
    info = cache.node_info(name)
    pods = [] if info is None else list(info.pods.values())
    row = cache.nodes.row_of(name)
    resources = {}
    if row >= 0:
        rows = cache.nodes.rows()[cache.nodes.rows() == row]
        resources = {
            resource: {
                "allocatable": int(cache.nodes.amounts(cache.nodes.allocatable, resource, rows)[0]),
                "requested": int(cache.nodes.amounts(cache.nodes.requested, resource, rows)[0]),
            }
            for resource in sorted(cache.nodes.resources)
        }
    return {
        "name": name,
        "isThere": row >= 0,
        "resources": resources,
        "pods": [{"pod": pod.key, "assumed": cache.is_assumed(pod.uid)} for pod in pods],
    }
