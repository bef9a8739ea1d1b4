"""All controllers by name, and `--controllers` as in kube-controller-manager.

`*` selects all, `name` adds a controller, `-name` removes it; for each name its first mention counts, wherever `*`
stands.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kscheduler.api.machinery.resources import REPLICA_SETS, REPLICATION_CONTROLLERS
from kscheduler.embedded.controllers.devices.claims import ResourceClaimController, ResourceClaimRelease
from kscheduler.embedded.controllers.devices.taint_eviction import DeviceTaintEvictionController
from kscheduler.embedded.controllers.engine.plan import Controller
from kscheduler.embedded.controllers.storage.binder import VolumeBinder
from kscheduler.embedded.controllers.storage.protection import ClaimProtection, EphemeralVolumes, VolumeProtection
from kscheduler.embedded.controllers.storage.provisioner import HollowProvisioner
from kscheduler.embedded.controllers.upkeep.budgets import DisruptionController
from kscheduler.embedded.controllers.upkeep.node_lifecycle import NodeLifecycleController
from kscheduler.embedded.controllers.upkeep.pod_garbage import PodGarbageController, ServiceAccountController
from kscheduler.embedded.controllers.upkeep.taint_eviction import TaintEvictionController
from kscheduler.embedded.controllers.workloads.daemon_sets import DaemonSetController
from kscheduler.embedded.controllers.workloads.deployments.controller import DeploymentController
from kscheduler.embedded.controllers.workloads.jobs.controller import (
    FinishedJobController,
    JobController,
    JobPodController,
)
from kscheduler.embedded.controllers.workloads.jobs.cron_jobs import CronJobController
from kscheduler.embedded.controllers.workloads.replica_sets import ReplicaSetController
from kscheduler.embedded.controllers.workloads.stateful_sets import StatefulSetController

ALL = "*"


def _replica_sets() -> Controller:
    return ReplicaSetController(REPLICA_SETS, "replicaset-controller", "replicaset-controller")


def _replication_controllers() -> Controller:
    return ReplicaSetController(REPLICATION_CONTROLLERS, "replicationcontroller-controller", "replication-controller")


# Factories by kube-controller-manager's names; `hollow-provisioner`, `job-pod-finalizer`, `resourceclaim-release` are
# our own.
CONTROLLERS: Mapping[str, Callable[[], Controller]] = MappingProxyType(
    {
        "cronjob-controller": CronJobController,
        "daemonset-controller": DaemonSetController,
        "deployment-controller": DeploymentController,
        "device-taint-eviction-controller": DeviceTaintEvictionController,
        "disruption-controller": DisruptionController,
        "ephemeral-volume-controller": EphemeralVolumes,
        "hollow-provisioner": HollowProvisioner,
        "job-controller": JobController,
        "job-pod-finalizer": JobPodController,
        "node-lifecycle-controller": NodeLifecycleController,
        "persistentvolume-binder-controller": VolumeBinder,
        "persistentvolume-protection-controller": VolumeProtection,
        "persistentvolumeclaim-protection-controller": ClaimProtection,
        "pod-garbage-collector-controller": PodGarbageController,
        "replicaset-controller": _replica_sets,
        "replicationcontroller-controller": _replication_controllers,
        "resourceclaim-controller": ResourceClaimController,
        "resourceclaim-release": ResourceClaimRelease,
        "serviceaccount-controller": ServiceAccountController,
        "statefulset-controller": StatefulSetController,
        "taint-eviction-controller": TaintEvictionController,
        "ttl-after-finished-controller": FinishedJobController,
    }
)


class UnknownControllerError(ValueError):
    """An unknown controller; the message lists the known names."""


def chosen(text: str) -> list[str]:
    """The names of the controllers that a `--controllers` value selects. Raises UnknownControllerError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    unknown = sorted({part.removeprefix("-") for part in parts} - {ALL} - CONTROLLERS.keys())
    if unknown:
        names = ", ".join(CONTROLLERS)
        raise UnknownControllerError(f"no such controller: {', '.join(unknown)}; there are {names}, and * for all")
    return [name for name in CONTROLLERS if _is_chosen(name, parts)]


def _is_chosen(name: str, parts: list[str]) -> bool:
    for part in parts:
        if part.removeprefix("-") == name:
            return not part.startswith("-")
    return ALL in parts


def make(text: str = ALL) -> list[Controller]:
    """New controllers for a `--controllers` value. Raises UnknownControllerError."""
    return [CONTROLLERS[name]() for name in chosen(text)]
