"""A user's plugins for random decisions, each with its rule in plain words: signed or not, and of every source."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from kscheduler.api.core import Pod
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin, Source
from kscheduler.framework.pods.pod_info import PodInfo
from tests.specification.decisions.naive_decisions import NaiveCluster
from tests.specification.rules import Place
from tests.specification.scores import cut, scaled

SubQueues = Sequence[Place]


class _Own(Plugin):
    """Built by a registry, and needs nothing of what that gives."""

    def __init__(self, *_: Any) -> None:
        pass


class Rates(_Own):
    """By an annotation of the node, its web pods, and the pod's priority: what no column shows."""

    name = "Rates"
    depends_on = (Source.ROW,)
    reads_spec_only = True

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.priority

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        infos = [nodes.info(row) for row in rows.tolist()]
        rates = [int(one.annotations.get("rate", "0")) + pod.priority % 3 for one in infos]
        web = [sum(pod.labels.get("app") == "web" for pod in one.pods.values()) for one in infos]
        return np.minimum(np.array(rates, dtype=np.int64) + np.array(web, dtype=np.int64), 100)


def rates(pod: Pod, sub_queues: SubQueues, cluster: NaiveCluster) -> list[int]:
    rated = [int(one.node.metadata.annotations.get("rate", "0")) + (pod.spec.priority or 0) % 3 for one in sub_queues]
    web = [sum(pod.metadata.labels.get("app") == "web" for pod in one.pods) for one in sub_queues]
    return [min(100, rate + number) for rate, number in zip(rated, web, strict=True)]


class Generations(_Own):
    """By a label of the node alone, and normalised."""

    name = "Generations"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        return np.array([int(nodes.info(row).labels.get("gen", "0")) for row in rows.tolist()], dtype=np.int64)

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        most = int(scores.max())
        return scores * 100 // most if most else scores


def generations(pod: Pod, sub_queues: SubQueues, cluster: NaiveCluster) -> list[int]:
    return scaled([int(one.node.metadata.labels.get("gen", "0")) for one in sub_queues])


class Fullness(_Own):
    """By amounts alone."""

    name = "Fullness"
    depends_on = (Source.AMOUNTS,)
    reads_spec_only = True

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        return nodes.pod_count[rows] * 100 // np.maximum(nodes.allowed_pods[rows], 1)


def fullness(pod: Pod, sub_queues: SubQueues, cluster: NaiveCluster) -> list[int]:
    allowed = [int(str(one.node.status.allocatable["pods"])) for one in sub_queues]
    return [100 * len(one.pods) // most for one, most in zip(sub_queues, allowed, strict=True)]


class Pulled(_Own):
    """By how many nodes hold the pod's images."""

    name = "Pulled"
    depends_on = (Source.IMAGES,)
    reads_pods = False
    reads_spec_only = True

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.images

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        states = [state for state in map(nodes.images.get, pod.images) if state is not None]
        points = np.zeros(nodes.capacity, dtype=np.int64)
        for state in states:
            points[state.array()] += 10 * len(state) // len(nodes)
        return np.minimum(points[rows], 100)


def pulled(pod: Pod, sub_queues: SubQueues, cluster: NaiveCluster) -> list[int]:
    images = [container.image for container in (*pod.spec.init_containers, *pod.spec.containers)]
    images += [volume.image.reference for volume in pod.spec.volumes if volume.image]
    names = [image if ":" in image else f"{image}:latest" for image in images]
    there = [{name for image in node.status.images for name in image.names} for node in cluster.nodes.values()]
    shares = {name: cut(10 * sum(name in one for one in there), len(there)) for name in names}
    held = [{name for image in one.node.status.images for name in image.names} for one in sub_queues]
    return [min(100, sum(shares[name] for name in names if name in one)) for one in held]


class Crowds(_Own):
    """Against more than two pods of one name on a node: reads labels, which no plugin needs to sign."""

    name = "Crowds"
    depends_on = (Source.ROW,)
    reasons = {1: "a crowd"}  # noqa: RUF012  as the plugins of this project say it

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        own = pod.namespace, pod.labels.get("app")
        there = [[(one.namespace, one.labels.get("app")) for one in nodes.info(row).pods.values()] for row in rows]
        return np.array([int(names.count(own) > 2) for names in there], dtype=np.int64)


def crowds(pod: Pod, place: Place) -> str | None:
    own = pod.metadata.namespace, pod.metadata.labels.get("app")
    near = [one for one in place.pods if (one.metadata.namespace, one.metadata.labels.get("app")) == own]
    return "a crowd" if len(near) > 2 else None


class Everywhere(_Own):
    """Against every node while there are too many like the pod in the whole cluster: signed, but of a moving source."""

    name = "Everywhere"
    depends_on = (Source.TOPOLOGY_COUNTERS,)

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        app = pod.labels.get("app")
        alike = [
            sum(one.labels.get("app") == app for one in nodes.info(row).pods.values()) for row in nodes.rows().tolist()
        ]
        there = dict(zip(nodes.rows().tolist(), alike, strict=True))
        return np.array([max(0, 50 - sum(alike) + 2 * there[row]) % 101 for row in rows.tolist()], dtype=np.int64)


def everywhere(pod: Pod, sub_queues: SubQueues, cluster: NaiveCluster) -> list[int]:
    app = pod.metadata.labels.get("app")
    alike = [one.spec.node_name for one in cluster.pods.values() if one.metadata.labels.get("app") == app]
    total = sum(name in cluster.nodes for name in alike)
    return [max(0, 50 - total + 2 * alike.count(one.node.metadata.name)) % 101 for one in sub_queues]


@plugin("Shuns")
def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001
    return "shunned" if node.annotations.get("shuns") == pod.labels.get("app") else None


Shuns = filter


def shuns(pod: Pod, place: Place) -> str | None:
    return "shunned" if place.node.metadata.annotations.get("shuns") == pod.metadata.labels.get("app") else None


@plugin("Indexes")
def score(pod: PodInfo, node: NodeInfo) -> int:
    return int(pod.labels.get("index", "0")) * 7 % 31 + len(node.pods) % 5


Indexes = score


def indexes(pod: Pod, sub_queues: SubQueues, cluster: NaiveCluster) -> list[int]:
    own = int(pod.metadata.labels.get("index", "0")) * 7 % 31
    return [own + len(one.pods) % 5 for one in sub_queues]
