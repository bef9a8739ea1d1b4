"""The order in which a ReplicaSet deletes surplus pods.

First pods without a node, then pods further from running, not ready, with a lower `pod-deletion-cost`, with more pods
of the same workload on their node, ready for a shorter time (by powers of two), with more restarts, and younger pods
(by powers of two).
"""

import math
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from functools import cmp_to_key

from kscheduler.simulation.controllers.reading.pods import is_ready, node_of, phase_of, ready_since
from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.durations import parse_time

_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def in_deletion_order(pods: Iterable[Object], related: Iterable[Object], now: datetime) -> list[Object]:
    """The pods in the order of deletion; `related` are the active pods of the whole workload."""
    crowd = Counter(node_of(pod) for pod in related)

    def firmness(pod: Object) -> tuple[object, ...]:
        return bool(node_of(pod)), _PHASES.get(phase_of(pod), 2), is_ready(pod), _cost(pod), -crowd[node_of(pod)]

    def compare(left: Object, right: Object) -> int:
        first, second = firmness(left), firmness(right)
        if first != second:
            return -1 if first < second else 1
        if is_ready(left) and (order := _by_age(ready_since(left), ready_since(right), left, right, now)):
            return order
        restarts = _restarts(right) - _restarts(left)
        return restarts or _by_age(_created(left), _created(right), left, right, now)

    return sorted(pods, key=cmp_to_key(compare))


def _by_age(first: datetime | None, second: datetime | None, left: Object, right: Object, now: datetime) -> int:
    """The younger first; for ages within a power of two the UID decides, so that rollouts spread over nodes."""
    if first == second:
        return 0
    if first is None or second is None:
        return -1 if first is None else 1
    order = _power(first, now) - _power(second, now)
    return order or (-1 if left["metadata"]["uid"] < right["metadata"]["uid"] else 1)


def _power(moment: datetime, now: datetime) -> int:
    nanoseconds = int((now - moment).total_seconds() * 1e9)
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def _created(pod: Object) -> datetime | None:
    return parse_time(pod["metadata"].get("creationTimestamp"))


def _cost(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _restarts(pod: Object) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)
