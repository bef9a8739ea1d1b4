"""The ranks of a group's members, so that neighbours in rank become neighbours in the network.

batch.kubernetes.io/job-completion-index     of an indexed Job; in a JobSet after the index of its Job
apps.kubernetes.io/pod-index                 of a StatefulSet
leaderworkerset.sigs.k8s.io/worker-index     of a LeaderWorkerSet
training.kubeflow.org/replica-index          of a training job
kueue.x-k8s.io/pod-index-offset              an annotation: what is added to it
"""

from collections.abc import Sequence
from typing import Final

from kscheduler.framework.pods.pod_info import PodInfo

_JOB: Final = "jobset.sigs.k8s.io/job-index"
_INDICES: Final = (
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "training.kubeflow.org/replica-index",
)
_OFFSET: Final = "kueue.x-k8s.io/pod-index-offset"
_LONGEST: Final = 9
_Rank = tuple[int, int]


def in_rank_order(members: Sequence[PodInfo]) -> tuple[Sequence[PodInfo], bool]:
    """The members by rank, and whether they have any: those without one come last, in their own order."""
    ranks = {pod.uid: rank for pod in members if (rank := _rank_of(pod)) is not None}
    if not ranks:
        return members, False
    last = (max(job for job, _ in ranks.values()) + 1, 0)
    return sorted(members, key=lambda pod: ranks.get(pod.uid, last)), True


def _rank_of(pod: PodInfo) -> _Rank | None:
    metadata = pod.pod.metadata
    for name in _INDICES:
        index = _number(metadata.labels.get(name) or metadata.annotations.get(name))
        if index is not None:
            offset = _number(metadata.annotations.get(_OFFSET)) or 0
            return _number(metadata.labels.get(_JOB)) or 0, index + offset
    return None


def _number(text: str | None) -> int | None:
    """What a controller has written; `None` for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _LONGEST else None
