"""A cluster for training: GPUs that are free beside CPU that is spent, and pods that wait."""

from collections.abc import Iterator
from typing import Any, Final

from tests.builders import node_tree, pod_tree
from tests.e2e.status_page.shop import HOUR, ZONES
from tests.e2e.status_page.watched import created

Tree = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
NODES: Final = 72
# GPUs of each training on a node, in turn; what is left of eight is free.
_TRAININGS: Final = ((8,), (4, 4), (4, 2), (2, 2, 1), (4, 1), (8,), (2,), (4, 2, 1), (1,), (8,), (4,))


def nodes() -> Iterator[Tree]:
    """Eight GPUs each."""
    for number in range(NODES):
        zone = ZONES[number % len(ZONES)]
        yield node_tree(
            f"gpu-{number:03}",
            labels={"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": f"gpu-{number:03}"},
            metadata={"creationTimestamp": created(90 * 24 * HOUR)},
            spec={"unschedulable": True} if number == 40 else {},
            status={"conditions": [{"type": "Ready", "status": "True"}]},
            cpu="96",
            memory="768Gi",
            **{GPU: "8"},
        )


def running_pods() -> Iterator[Tree]:
    """Trainings, and on every third node batch pods without GPUs that have taken the CPU beside free ones."""
    for number in range(NODES):
        node, left = f"gpu-{number:03}", 96
        for at, gpus in enumerate(_TRAININGS[number % len(_TRAININGS)]):
            left -= 10 * gpus
            yield _pod(f"train-{number:03}-{at}", node, str(10 * gpus), gpus)
        if number % 3 == 0 and left > 8:
            yield _pod(f"batch-{number:03}", node, str(left - 4), 0)


def waiting_pods() -> Iterator[Tree]:
    """Trainings of whole nodes, of which none is free."""
    for number in range(6):
        yield _pod(f"large-{number}", "", "80", 8)


def _pod(name: str, node: str, cpu: str, gpus: int) -> Tree:
    requests = {"cpu": cpu, "memory": "32Gi"} | ({GPU: str(gpus)} if gpus else {})
    metadata = {"creationTimestamp": created(HOUR), "namespace": "research"}
    return pod_tree(name, node=node, requests=requests, metadata=metadata, status={"phase": "Running"} if node else {})
