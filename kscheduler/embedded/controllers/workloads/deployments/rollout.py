"""The arithmetic of rolling updates; pure.

Pods beyond `replicas` up to maxSurge may be added, and available ones below `replicas` down to maxUnavailable removed.
Percentages round surge up and unavailability down; if both are zero, one pod may be unavailable.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kscheduler.api.machinery.api_errors import Object
from kscheduler.embedded.controllers.reading import created, scaled
from kscheduler.embedded.controllers.workloads.deployments.revisions import MOST, annotations_of, replicas_of


class Scale(NamedTuple):
    """A ReplicaSet and its new number of pods."""

    replica_set: Object
    replicas: int


def is_rolling(deployment: Object) -> bool:
    """Whether its strategy is RollingUpdate."""
    strategy = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def wanted(deployment: Object) -> int:
    """`spec.replicas`."""
    return int(deployment["spec"].get("replicas", 1))


def fence_posts(deployment: Object) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) as numbers."""
    if not is_rolling(deployment):
        return 0, 0
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    total = wanted(deployment)
    surge = scaled(rolling.get("maxSurge", "25%"), total, round_up=True)
    unavailable = scaled(rolling.get("maxUnavailable", "25%"), total, round_up=False)
    return surge, 1 if surge == 0 and unavailable == 0 else unavailable


def max_unavailable(deployment: Object) -> int:
    """How many pods may be unavailable; at most all."""
    return min(fence_posts(deployment)[1], wanted(deployment)) if wanted(deployment) else 0


def total(replica_sets: Iterable[Object]) -> int:
    """The desired pods of the sets."""
    return sum(replicas_of(replica_set) for replica_set in replica_sets)


def present(replica_sets: Iterable[Object], field: str = "replicas") -> int:
    """The pods of the sets, or the pods that `field` counts."""
    return sum(int((replica_set.get("status") or {}).get(field, 0)) for replica_set in replica_sets)


def new_replicas(deployment: Object, replica_sets: list[Object], new: Object | None) -> int:
    """How many pods the current ReplicaSet may have now."""
    now = 0 if new is None else replicas_of(new)
    if not is_rolling(deployment):
        return wanted(deployment)
    room = wanted(deployment) + fence_posts(deployment)[0] - total(replica_sets)
    return now if room <= 0 else now + min(room, wanted(deployment) - now)


def shrunk_old(deployment: Object, old: list[Object], new: Object) -> list[Scale]:
    """Old ReplicaSets that may shrink now: unhealthy pods first, then as many as may be unavailable."""
    everything = [*old, new]
    floor = wanted(deployment) - max_unavailable(deployment)
    new_missing = replicas_of(new) - present([new], "availableReplicas")
    budget = total(everything) - floor - new_missing
    if budget <= 0 or total(old) == 0:
        return []
    sizes = {replica_set["metadata"]["name"]: replicas_of(replica_set) for replica_set in old}
    for replica_set in sorted(old, key=created):
        sick = replicas_of(replica_set) - present([replica_set], "availableReplicas")
        gone = min(budget, sick, sizes[replica_set["metadata"]["name"]])
        if gone > 0:
            sizes[replica_set["metadata"]["name"]] -= gone
            budget -= gone
    healthy = present(everything, "availableReplicas") - floor
    for replica_set in sorted(old, key=created):
        gone = min(max(healthy, 0), sizes[replica_set["metadata"]["name"]])
        sizes[replica_set["metadata"]["name"]] -= gone
        healthy -= gone
    return [
        Scale(replica_set, sizes[replica_set["metadata"]["name"]])
        for replica_set in old
        if sizes[replica_set["metadata"]["name"]] != replicas_of(replica_set)
    ]


def proportional(deployment: Object, active: list[Object]) -> list[Scale]:
    """The new sizes when a Deployment is scaled during a rollout: each ReplicaSet gets its share of the difference."""
    size = wanted(deployment) + fence_posts(deployment)[0] if wanted(deployment) else 0
    to_add = size - total(active)
    if to_add == 0:
        return []
    # Larger sets first; of equal sets the newer first when growing, the older when shrinking.
    ordered = sorted(active, key=created, reverse=to_add > 0)
    ordered.sort(key=replicas_of, reverse=True)
    sizes: list[int] = []
    added = 0
    for replica_set in ordered:
        share = _share(replica_set, to_add, added, size)
        sizes.append(replicas_of(replica_set) + share)
        added += share
    if ordered:
        sizes[0] = max(sizes[0] + to_add - added, 0)
    return [Scale(replica_set, replicas) for replica_set, replicas in zip(ordered, sizes, strict=True)]


def _share(replica_set: Object, to_add: int, added: int, size: int) -> int:
    """This set's share of the pods to add (below zero: to remove), rounded, within what is left to distribute."""
    replicas, left = replicas_of(replica_set), to_add - added
    if replicas == 0 or left == 0:
        return 0
    if to_add < 0 and size == 0:
        return -replicas
    before = int(annotations_of(replica_set).get(MOST, "0") or 0) or size
    share = round(replicas * size / before) - replicas
    return min(max(share, 0), left) if to_add > 0 else max(min(share, 0), left)
