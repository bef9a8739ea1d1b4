"""A user's plugins for random histories.

One reads what no column shows, and its points are out of bounds now and then; some fail now and then; one sees each
node by itself.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_info import NodeInfo
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows, Scores
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin, Source, status_of_code
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status


class Rates(Plugin):
    """Points by an annotation of the node, and by labels of the pods that are there."""

    name = "Rates"
    depends_on = (Source.ROW,)
    reads_spec_only = True

    def __init__(self, *_: Any) -> None:
        pass

    def sign(self, pod: PodInfo) -> Hashable:
        return pod.priority

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        infos = [nodes.info(row) for row in rows.tolist()]
        points = [int(one.annotations.get("rate", "0")) + _friends(one) + pod.priority % 3 for one in infos]
        return np.array(points, dtype=np.int64)


class Balks(Plugin):
    """Fails to normalise for three nodes."""

    name = "Balks"
    depends_on = (Source.ROW,)
    reads_spec_only = True

    def __init__(self, *_: Any) -> None:
        pass

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def score(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        return nodes.pod_count.take(rows)

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        if len(rows) == 3:
            raise ValueError("three are too many")
        return np.minimum(scores, 100)


class BalksToo(Balks):
    """The same without a signature, for important pods only."""

    name = "BalksToo"
    depends_on = (Source.ANYTHING,)

    def normalize(self, cycle: CycleState, pod: PodInfo, rows: Rows, scores: Scores) -> Scores:
        return super().normalize(cycle, pod, rows, scores) if pod.priority else scores * 0


class _Shunned:
    """Texts, numbered from 1 as they turn up."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def number(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1


class Fragile(Plugin):
    """Rejects by the pod's own labels, with texts of its own, and fails where a node is said to be bad."""

    name = "Fragile"
    depends_on = (Source.ROW,)

    def __init__(self, *_: Any) -> None:
        pass

    def sign(self, pod: PodInfo) -> Hashable:
        return ()

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        infos = [nodes.info(row) for row in rows.tolist()]
        if any(one.labels.get("state") == "bad" for one in infos):
            raise ValueError("a bad node")
        shunned = cycle.find(_Shunned) or _Shunned()
        cycle.write(shunned)
        app = pod.labels.get("app")
        codes = [shunned.number(one.name) if one.labels.get("shuns") == app else 0 for one in infos]
        return np.array(codes, dtype=np.int64)

    def status(self, cycle: CycleState, code: int) -> Status:
        return status_of_code(code, (f"{cycle.read(_Shunned).texts[code - 1]} shuns it",), self.name)


@plugin("ByItself")
def filter(pod: PodInfo, node: NodeInfo) -> str | None:  # noqa: A001
    if len(node.pods) == 9 and pod.priority == 5:
        raise ValueError("nine")
    return "even" if len(node.pods) % 7 == 6 and pod.priority == 0 else None


ByItself = filter


def _friends(info: NodeInfo) -> int:
    return sum(pod.labels.get("app") == "web" for pod in info.pods.values())
