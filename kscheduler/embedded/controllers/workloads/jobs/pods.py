"""The pods of a Job: counting, indexes, the next pods. Pure.

A pod has a finalizer until it has been counted, so that a deleted pod is not lost. Since counting and removing the
finalizer are in one plan, no list of uncounted pods is needed.
"""

from collections.abc import Iterable
from datetime import datetime

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import parse_time
from kscheduler.api.names import indexed_base
from kscheduler.embedded.controllers.reading import is_finished, is_terminating, phase_of, pod_of, with_label

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_FIRST_BACKOFF_SECONDS, _LAST_BACKOFF_SECONDS = 10, 600
_DOUBLINGS = 10


def is_tracked(pod: Object) -> bool:
    """Whether the pod has not been counted yet."""
    return TRACKING in (pod["metadata"].get("finalizers") or ())


def untracked(pod: Object) -> Object:
    """The pod without the finalizer."""
    metadata = {**pod["metadata"]}
    metadata["finalizers"] = [finalizer for finalizer in metadata.get("finalizers") or () if finalizer != TRACKING]
    if not metadata["finalizers"]:
        del metadata["finalizers"]
    return {**pod, "metadata": metadata}


def waits_for_failure(job: Object) -> bool:
    """Whether a terminating pod is replaced only after it has failed."""
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def has_failed(job: Object, pod: Object) -> bool:
    """Whether the pod counts as a failure, which includes a pod that is deleted while it runs."""
    if phase_of(pod) == "Failed":
        return True
    return is_terminating(pod) and phase_of(pod) != "Succeeded" and not waits_for_failure(job)


def is_indexed(job: Object) -> bool:
    """Whether each completion has a number."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Object) -> int | None:
    """The pod's completion index."""
    text = (pod["metadata"].get("annotations") or {}).get(INDEX, "")
    return int(text) if text.isdigit() else None


def parse_indexes(text: str) -> set[int]:
    """`1,3-5` as numbers."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Numbers as `1,3-5`."""
    spans: list[list[int]] = []
    for number in sorted(indexes):
        if spans and spans[-1][-1] == number - 1:
            spans[-1][1:] = [number]
        else:
            spans.append([number])
    # Two neighbours are written as a list, as in the real controller.
    texts = (
        f"{span[0]}{',' if span[-1] - span[0] == 1 else '-'}{span[-1]}" if len(span) > 1 else f"{span[0]}"
        for span in spans
    )
    return ",".join(texts)


def next_pods(job: Object, count: int, taken: set[int]) -> list[Object]:
    """`count` new pods; for an Indexed Job with the lowest indexes that are neither completed nor active."""
    if not is_indexed(job):
        return [_pod(job, None) for _ in range(count)]
    free = (number for number in range(int(job["spec"].get("completions") or 0)) if number not in taken)
    return [_pod(job, number) for number, _ in zip(free, range(count), strict=False)]


def backoff_seconds(job: Object, pods: list[Object], now: datetime) -> float:
    """The delay after failures: 10 s, doubled with each failure since the last success, 10 min at most."""
    ends = [(finish_time(pod), pod) for pod in pods if has_failed(job, pod)]
    successes = [finish_time(pod) for pod in pods if phase_of(pod) == "Succeeded"]
    last_success = max((moment for moment in successes if moment is not None), default=None)
    failures = [end for end, _ in ends if end is not None and (last_success is None or end > last_success)]
    if not failures:
        return 0.0
    delay: int = min(_FIRST_BACKOFF_SECONDS * 2 ** min(len(failures) - 1, _DOUBLINGS), _LAST_BACKOFF_SECONDS)
    return max(delay - (now - max(failures)).total_seconds(), 0.0)


def finish_time(pod: Object) -> datetime | None:
    """When the last container ended; otherwise when the pod was deleted or a condition last changed."""
    status = pod.get("status") or {}
    ends = [
        parse_time(((container.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for container in status.get("containerStatuses") or ()
    ]
    known = [end for end in ends if end is not None]
    if known and is_finished(pod):
        return max(known)
    if is_terminating(pod):
        return parse_time(pod["metadata"]["deletionTimestamp"])
    changes = [parse_time(condition.get("lastTransitionTime")) for condition in status.get("conditions") or ()]
    return max((moment for moment in changes if moment is not None), default=None)


def _pod(job: Object, index: int | None) -> Object:
    template = job["spec"]["template"]
    if index is not None:
        template = with_label(template, INDEX, str(index))
    pod = pod_of(template, job)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["finalizers"] = [*metadata.get("finalizers", ()), TRACKING]
    if index is not None:
        metadata["generateName"] = indexed_base(job["metadata"]["name"], index)
        metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
        spec.setdefault("hostname", f"{job['metadata']['name']}-{index}")
        reference = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
        variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": reference}
        for kind in ("containers", "initContainers"):
            if spec.get(kind):
                spec[kind] = [
                    {**container, "env": [*(container.get("env") or ()), variable]} for container in spec[kind]
                ]
    return pod
