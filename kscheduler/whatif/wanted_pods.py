"""How many pods a workload's controller would make of a manifest, and why it may make none.

The problem: a Job that is created suspended, as every Job of Kueue is, makes no pods until somebody resumes it. Whoever
counts `parallelism` alone says of it "4 pods would get a node".

The idea: the fields that keep a controller from making pods, by kind, beside those that count them. A question about
such a workload may still be meant as "where would they go": `replicas` of the question says how many, whatever the
manifest says.
"""

from typing import Any, Final

Tree = dict[str, Any]

WORKLOADS: Final = {
    "Deployment": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicationController": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
"""Kinds that create pods, with the path of their pod template."""
_JOBS: Final = ("Job", "CronJob")
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
_COUNTS: Final = ("replicas", "parallelism", "completions")


def counts_in(tree: Tree) -> dict[str, Any]:
    """What a workload says of the number of its pods, by the path of the field."""
    path, spec = _counting_spec(tree)
    return {f"{path}.{name}": spec[name] for name in _COUNTS if spec.get(name) is not None}


def pods_wanted(tree: Tree, replicas: int | None = None) -> int:
    """How many pods a workload is to have at a time, if its controller makes some; of a DaemonSet, on a node.

    Of a Job those that it begins with: as many as run beside each other, and no more than are to complete.
    `replicas`: whatever its manifest says.
    """
    kind = str(tree.get("kind"))
    if kind == "DaemonSet":
        return 1
    if replicas is not None:
        return replicas
    _, spec = _counting_spec(tree)
    if kind not in _JOBS:
        return _count(spec.get("replicas"))
    parallelism, completions = _count(spec.get("parallelism")), spec.get("completions")
    return parallelism if completions is None else min(parallelism, _count(completions))


def why_none(tree: Tree) -> str:
    """Why the controller of a workload makes no pods of this manifest as it stands; empty: it makes some.

    A DaemonSet has no number; whether any node is right for it is not asked here.
    """
    kind = str(tree.get("kind"))
    spec = _mapping(tree.get("spec"))
    if kind in _JOBS and spec.get("suspend") is True:
        return "it is suspended (spec.suspend: true)"
    path, job = _counting_spec(tree)
    if kind == "CronJob" and job.get("suspend") is True:
        return f"its Jobs are made suspended ({path}.suspend: true)"
    manager = job.get("managedBy")
    if kind in _JOBS and manager and manager != _JOB_CONTROLLER:
        return f"the Job controller leaves it to {manager} ({path}.managedBy)"
    if kind == "Deployment" and spec.get("paused") is True:
        return "it is paused (spec.paused: true)"
    if not pods_wanted(tree):
        zero = next(name for name, count in counts_in(tree).items() if count == 0)
        return f"it asks for 0 pods ({zero}: 0)"
    return ""


def _counting_spec(tree: Tree) -> tuple[str, Tree]:
    """The part of a workload that counts its pods, with its path: a CronJob's Jobs do it."""
    spec = _mapping(tree.get("spec"))
    if tree.get("kind") == "CronJob":
        return "spec.jobTemplate.spec", _mapping(_mapping(spec.get("jobTemplate")).get("spec"))
    return "spec", spec


def _count(value: Any) -> int:
    """A number of pods; what is not set, or cannot be one, counts as 1."""
    return value if isinstance(value, int) and value >= 0 else 1


def _mapping(value: Any) -> Tree:
    return value if isinstance(value, dict) else {}
