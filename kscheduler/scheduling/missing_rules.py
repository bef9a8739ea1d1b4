"""Never wrong while unfinished: a pod that needs a rule which is not built is held, and told which.

Each entry names the in-tree plugin that will hold the rule, the field that asks for it, and how to see that a pod does.
A profile that disables the plugin does not ask for its rule, so its pods are not held. When a plugin is built, its
entry goes; when the table is empty, so does this file.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kscheduler.api.core import Pod, Volume
from kscheduler.framework import events
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable
from kscheduler.state.cache import Cache
from kscheduler.state.hints import Registrations


@dataclass(frozen=True, slots=True)
class MissingRule:
    """A rule that is not built."""

    plugin: str
    field: str
    is_needed: Callable[[Pod], bool]


def _has_pod_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def _has_claims(pod: Pod) -> bool:
    return any(volume.persistent_volume_claim or volume.ephemeral is not None for volume in pod.spec.volumes)


def _is_shared_disk(volume: Volume) -> bool:
    disks = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd)
    return any(disk is not None for disk in disks)


def _is_migrated_disk(volume: Volume) -> bool:
    counted = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.azure_disk, volume.cinder)
    return any(disk is not None for disk in (*counted, volume.portworx_volume))


def _needs_node_features(pod: Pod) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    restarts_all = any(rule.action == "RestartAllContainers" for one in containers for rule in one.restart_policy_rules)
    return restarts_all or (pod.spec.host_network and pod.spec.host_users is False)


MISSING_RULES = (
    MissingRule("VolumeRestrictions", "spec.volumes", lambda pod: any(map(_is_shared_disk, pod.spec.volumes))),
    MissingRule("NodeVolumeLimits", "spec.volumes", lambda pod: any(map(_is_migrated_disk, pod.spec.volumes))),
    MissingRule("VolumeBinding", "spec.volumes", _has_claims),
    # Where a profile does without VolumeBinding, these still judge claims.
    MissingRule("VolumeRestrictions", "spec.volumes", _has_claims),
    MissingRule("NodeVolumeLimits", "spec.volumes", _has_claims),
    MissingRule("VolumeZone", "spec.volumes", _has_claims),
    MissingRule(
        "PodTopologySpread", "spec.topologySpreadConstraints", lambda pod: bool(pod.spec.topology_spread_constraints)
    ),
    MissingRule("InterPodAffinity", "spec.affinity", _has_pod_affinity),
    MissingRule("DynamicResources", "spec.resourceClaims", lambda pod: bool(pod.spec.resource_claims)),
    MissingRule("NodeDeclaredFeatures", "spec", _needs_node_features),
    MissingRule("GangScheduling", "spec.schedulingGroup", lambda pod: pod.spec.scheduling_group is not None),
)

NOT_BUILT = frozenset(
    {rule.plugin for rule in MISSING_RULES if rule.plugin != "DynamicResources"} | {"DefaultPreemption"}
)
"""In-tree plugins that a configuration may name and that this version does not have. Preemption makes
room, and without it a pod merely waits; of DynamicResources the part for pods without claims is built."""

_ALWAYS_ASKED = frozenset({"GangScheduling"})
"""Behind a feature gate that is off, where kube-scheduler would place the members one by one."""

EVENTS: Registrations = {
    # The pod that repels is gone, or its labels or those of the one that waits have changed.
    "InterPodAffinity": (
        ClusterEventWithHint(events.ASSIGNED_POD_DELETE),
        ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.UPDATE_POD_LABEL)),
    ),
}


def held_status(
    pod: PodInfo, view: Cache, enabled: Collection[str], *, has_hard_default_spread: bool = False
) -> Status:
    """Success, or why the pod is held.

    `enabled` are the plugins that the pod's profile asks for; `has_hard_default_spread` says that the profile gives
    pods without constraints of their own some that forbid nodes.
    """
    for rule in MISSING_RULES:
        if (rule.plugin in enabled or rule.plugin in _ALWAYS_ASKED) and rule.is_needed(pod.pod):
            return _held(rule.plugin, f"its {rule.field} needs it")
    if has_hard_default_spread and "PodTopologySpread" in enabled:
        return _held("PodTopologySpread", "the profile's default constraints with DoNotSchedule need it")
    if "InterPodAffinity" in enabled and view.anti_affinity.may_mean(pod):
        return _held("InterPodAffinity", "the required anti-affinity of a running pod selects it")
    return SUCCESS


def _held(plugin: str, why: str) -> Status:
    return unresolvable(f"pod is held because kscheduler has not built {plugin} yet ({why})", plugin=plugin)
