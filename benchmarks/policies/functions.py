"""The five policies of `columns.py` as functions of one node, whose answers are kept (`sign`)."""

from kscheduler import NodeInfo, PodInfo, plugin


def _tier(pod: PodInfo) -> str | None:
    return pod.labels.get("tier")


@plugin("NotFull", sign=_tier)
def filter(pod: PodInfo, node: NodeInfo) -> str | None:
    return "node(s) were nearly full" if 10 * len(node.pods) >= 9 * 110 else None


@plugin("KnownZone", sign=_tier)  # type: ignore[no-redef]  # another plugin
def filter(pod: PodInfo, node: NodeInfo) -> str | None:
    closed = node.labels.get("topology.kubernetes.io/zone") == "closed"
    return "node(s) were in a zone that is closed" if closed else None


@plugin("FewestPods", sign=_tier)
def score(pod: PodInfo, node: NodeInfo) -> int:
    return max(0, 100 - 100 * len(node.pods) // 110)


@plugin("LowCost", sign=_tier)  # type: ignore[no-redef]  # another plugin
def score(pod: PodInfo, node: NodeInfo) -> int:
    return int(100 * (1 - min(1.0, max(0.0, float(node.annotations.get("cost", "0.5"))))))


@plugin("SameTier", sign=_tier)  # type: ignore[no-redef]  # another plugin
def score(pod: PodInfo, node: NodeInfo) -> int:
    return 100 if node.labels.get("tier") == _tier(pod) else 0
