"""The release of Kubernetes whose rules are followed, and the API servers that were tried: named here only."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

# As an API server reports it (`gitVersion`); the embedded API server and the hollow kubelets do.
RELEASE: Final = "v1.36.3"
# `1.36`: gates, defaults and decisions are the same in all its patch releases.
VERSION: Final = RELEASE.removeprefix("v").rpartition(".")[0]

OLDEST_SERVER: Final = "1.35"
# API servers on which `make e2e-versions` has run the end-to-end suite: `docs/compatibility.md`.
NEWEST_SERVER: Final = "1.38"


# What the followed versions of Kubernetes do differently: one value per difference and version.
#
# Code asks for a value (`Behaviours.budgets_stop_at_the_first_broken`), never for a version. To drop a version is to
# drop its column, and then each value that all others share. What differs by a feature gate alone is in the gates'
# tables.
#
# The numbers in brackets (D1, M2, Q3) are those of the differences as docs/compatibility.md lists them.


class Behaviours(msgspec.Struct, frozen=True):
    """How kube-scheduler of one version decides where another one does not decide so."""

    version: str
    """`1.37`: the same in all patch releases."""
    sums_whole_resizes: bool
    """D1. Requests of a pod in a resize: the largest of three sums over all containers, not the sum of the largest."""
    scales_by_image_volumes: bool
    """D2. ImageLocality's upper threshold grows with image volumes, as with containers."""
    budgets_stop_at_the_first_broken: bool
    """D3. A victim that breaks a budget uses up nothing of the budgets behind that one."""
    has_pod_group_post_filter: bool
    """C1. Configurations may name plugins at the extension point `podGroupPostFilter`."""
    node_name_narrows: bool
    """D8. NodeName restricts the search to the named node in PreFilter."""
    knows_bind_mount_options: bool
    """D12. Pods whose containers set `bindMountOptions` need a node that declares VolumeBindMountOptions."""
    allocates_as_1_37: bool
    """Devices: counters by driver and pool, distinct attributes among all devices, capacities that are refused."""
    names_claims_to_deallocate: bool
    """M1. DynamicResources says `no new claims to deallocate` where it has nothing to say."""
    reports_of_preemption: bool
    """M2. The message of a pod that preempts tells the node and the number of victims."""
    pod_events_are_narrow: bool
    """Q2, Q3. Plugins are woken by what they register: by assigned pods, or by the pod itself, not by both."""
    event_names: Mapping[str, str]
    """Q1. Labels of cluster events in metrics, by kscheduler's own names: those of 1.36, and of what came later."""
    handled_event_names: Mapping[str, str]
    """Q1. The same where the handling of an event is timed: there a pod that changes is not its own target."""
    counts_victims_at_once: bool
    """D10. Metrics count a preemption's victims when they are chosen, also if all of them are terminating already."""
    counts_entities: bool
    """Metrics count what the queue holds (`queued_entities`, and how many come into it), besides its pods."""
    claims_stay_pending: bool
    """Devices of a claim stay pending until all claims of its pod are written, not until their own claim is."""
    gated_pods_wait_for_the_flush: bool
    """Q4. The flush of pods that have waited for five minutes looks at gated pods once in that time."""
    nominates_gated_pods: bool
    """Others leave room for a pod on the node that its status names, also while its scheduling gates are closed."""
    # Of 1.38: devices
    joins_names_of_devices: bool
    """(1.38: DR1, DR4) An attribute or capacity of the driver is the same with and without the driver's domain."""
    refuses_unreadable_attributes: bool
    """(1.38: DR2) A constraint on an attribute without a value that can be read is an error."""
    compares_versions: bool
    """(1.38: DR3) Constraints compare versions as such, not as texts: builds do not count."""
    keeps_shared_devices_from_exclusive_use: bool
    """(1.38: DR5) A device is not allocated exclusively while claims hold shares of it, whatever its slice says now."""
    bad_pools_reject_one_node: bool
    """(1.38: DR6) All devices of a pool that is not whole: an obstacle on this node, not an error for the pod."""
    refuses_negative_amounts: bool
    """(1.38: DR7) A negative request is an error, and so is any allocation while a claim has consumed less than 0."""
    promotes_other_classes: bool
    """(1.38: DR8) When a class gives an extended resource up, the next best class gets it."""
    limits_capacity_requests: bool
    """(1.38: DR12) The API server counts and checks the capacities of a request and of a result, one term of a device's
    node selector, one slash in names, and the digits of versions."""

    # Of 1.38: single pods
    empty_selectors_count_all_pods: bool
    """A spread constraint with an empty selector counts all pods of the namespace, not none (1.38: D1)."""
    budgets_match_by_selector_alone: bool
    """Budgets with an empty selector protect all pods of their namespace, and pods need no labels (1.38: D2)."""
    scores_pod_level_requests: bool
    """NodeResourcesFit scores by pod-level requests and resizes, not by the spec of containers alone (1.38: D7)."""
    compares_storage_exactly: bool
    """Sizes of claims and storage capacities are compared as they are, not rounded up to bytes (1.38: D9)."""
    needs_no_victims: bool
    """A node where no victim is needed is rejected, or shown to extenders that preempt; not an error (1.38: D5, D6)."""
    knows_mldsa_and_oci_profiles: bool
    """Pods need a node that declares PodCertificateMLDSA or SecurityProfileOCI if they use it (1.38: D12)."""
    shrunken_nodes_wake_nominated_pods: bool
    """A pod that is nominated to a node which becomes too small for it is tried again (1.38: Q3)."""
    groups_stop_at_the_first_gate: bool
    """Of the members of a pod group none behind the first that is gated is asked about its gates (1.38: Q7)."""
    gates_are_measured_by_status: bool
    """Metrics count PreEnqueue by what it has said, not as a success in any case (1.38: Q7)."""
    # Of 1.38: metrics, configuration
    labels_entities: bool
    """Metrics of groups tell by `entity` which kind it is; `type` of what the queue holds is called so (1.38: 1.6)."""
    has_percentage_of_placements: bool
    """Configurations and profiles may say how many placements are looked for (1.38: C1)."""
    has_placement_feasible: bool
    """Configurations may name plugins at the extension point `placementFeasible` (1.38: C2)."""
    checks_plugins_of_placements: bool
    """Removed plugins are refused at the points of placements, too (1.38: C3)."""

    # Of 1.38: pod groups
    groups_always_have_policies: bool
    """(1.38: 3) Groups have a preemption policy without a gate; where they name none, their members' counts."""
    gangs_wait_at_permit: bool
    """(1.38: 5.2) GangScheduling holds members back at Permit until enough of them have a node."""
    tells_of_quorums: bool
    """(1.38: 5.2, 5.5) GangScheduling names the tree that waits, and counts the members that were rejected."""
    members_inherit_rejections: bool
    """(1.38: 5.2) Members without a reason of their own are told of their group, and wait for what it waits for."""
    checks_whole_trees: bool
    """(1.38: 5.1) All groups of a tree are checked against its root; what is wrong there is no scheduler's error."""
    searches_few_placements: bool
    """(1.38: 5.3) The nominated placement comes first, and the search ends with enough placements that fit."""
    merges_placements: bool
    """(1.38: 5.3) Several plugins may generate placements, which are intersected."""
    empty_values_are_no_domains: bool
    """(1.38: 5.3) A node whose topology label is empty is in no placement."""
    failures_name_their_ancestor: bool
    """(1.38: 5.4) A group below one that has failed names it, and each group has an answer of its own."""
    composites_have_conditions: bool
    """(1.38: 5.4) Composite groups get a condition, as groups of pods do."""
    scheduled_groups_are_final: bool
    """(1.38: 5.4) Once a group has been scheduled, its condition is never written again."""
    composite_version: str
    """(1.38: 3) The version of the API whose composite groups are followed."""
    ranks_nodes_by_victims: bool
    """(1.38: 6) While a group preempts, a member goes to a node that costs the least of all that it fits on."""
    members_are_victims_by_themselves: bool
    """(1.38: 6) A victim's priority is its own, and a member that may go alone ranks as a pod that is in no group."""


_NAMES_OF_1_36: Final[Mapping[str, str]] = MappingProxyType(
    {f"{pod}UpdatePodScaleUp": f"{pod}Update" for pod in ("AssignedPod", "UnschedulablePod")}
)
_CHANGES_OF_ITSELF: Final = (
    "Label",
    "ScaleDown",
    "ScaleUp",
    "Toleration",
    "SchedulingGatesEliminated",
    "GeneratedResourceClaim",
)
_NAMES_OF_1_37: Final = {f"UnschedulablePod{done}": f"UnscheduledPod{done}" for done in ("Add", "Update", "Delete")}
_EVENT_NAMES_OF_1_37: Final[Mapping[str, str]] = MappingProxyType(
    _NAMES_OF_1_37
    | {f"UnschedulablePodUpdatePod{change}": f"TargetPodUpdatePod{change}" for change in _CHANGES_OF_ITSELF}
)
_HANDLED_NAMES_OF_1_37: Final[Mapping[str, str]] = MappingProxyType(
    _NAMES_OF_1_37
    | {f"UnschedulablePodUpdatePod{change}": f"UnscheduledPodUpdatePod{change}" for change in _CHANGES_OF_ITSELF}
)

# By version, oldest first.
BEHAVIOURS: Final = MappingProxyType(
    {
        each.version: each
        for each in (
            Behaviours(
                version="1.36",
                sums_whole_resizes=False,
                scales_by_image_volumes=False,
                budgets_stop_at_the_first_broken=False,
                has_pod_group_post_filter=False,
                node_name_narrows=False,
                knows_bind_mount_options=False,
                allocates_as_1_37=False,
                names_claims_to_deallocate=True,
                reports_of_preemption=False,
                pod_events_are_narrow=False,
                event_names=_NAMES_OF_1_36,
                handled_event_names=_NAMES_OF_1_36,
                counts_victims_at_once=False,
                counts_entities=False,
                claims_stay_pending=False,
                gated_pods_wait_for_the_flush=False,
                nominates_gated_pods=False,
                # Of 1.38: pod groups
                groups_always_have_policies=False,
                gangs_wait_at_permit=True,
                tells_of_quorums=False,
                members_inherit_rejections=False,
                checks_whole_trees=False,
                searches_few_placements=False,
                merges_placements=False,
                empty_values_are_no_domains=False,
                failures_name_their_ancestor=False,
                composites_have_conditions=False,
                scheduled_groups_are_final=False,
                composite_version="v1alpha3",
                ranks_nodes_by_victims=False,
                members_are_victims_by_themselves=False,
                # Of 1.38: single pods
                empty_selectors_count_all_pods=False,
                budgets_match_by_selector_alone=False,
                scores_pod_level_requests=False,
                compares_storage_exactly=False,
                needs_no_victims=False,
                knows_mldsa_and_oci_profiles=False,
                shrunken_nodes_wake_nominated_pods=False,
                groups_stop_at_the_first_gate=False,
                gates_are_measured_by_status=False,
                # Of 1.38: devices
                joins_names_of_devices=False,
                refuses_unreadable_attributes=False,
                compares_versions=False,
                keeps_shared_devices_from_exclusive_use=False,
                bad_pools_reject_one_node=False,
                refuses_negative_amounts=False,
                promotes_other_classes=False,
                limits_capacity_requests=False,
                # Of 1.38: metrics, configuration
                labels_entities=False,
                has_percentage_of_placements=False,
                has_placement_feasible=False,
                checks_plugins_of_placements=False,
            ),
            Behaviours(
                version="1.37",
                sums_whole_resizes=True,
                scales_by_image_volumes=True,
                budgets_stop_at_the_first_broken=True,
                has_pod_group_post_filter=True,
                node_name_narrows=True,
                knows_bind_mount_options=True,
                allocates_as_1_37=True,
                names_claims_to_deallocate=False,
                reports_of_preemption=True,
                pod_events_are_narrow=True,
                event_names=_EVENT_NAMES_OF_1_37,
                handled_event_names=_HANDLED_NAMES_OF_1_37,
                counts_victims_at_once=True,
                counts_entities=True,
                claims_stay_pending=True,
                gated_pods_wait_for_the_flush=True,
                nominates_gated_pods=True,
                # Of 1.38: pod groups
                groups_always_have_policies=False,
                gangs_wait_at_permit=True,
                tells_of_quorums=False,
                members_inherit_rejections=False,
                checks_whole_trees=False,
                searches_few_placements=False,
                merges_placements=False,
                empty_values_are_no_domains=False,
                failures_name_their_ancestor=False,
                composites_have_conditions=False,
                scheduled_groups_are_final=False,
                composite_version="v1alpha3",
                ranks_nodes_by_victims=False,
                members_are_victims_by_themselves=False,
                # Of 1.38: single pods
                empty_selectors_count_all_pods=False,
                budgets_match_by_selector_alone=False,
                scores_pod_level_requests=False,
                compares_storage_exactly=False,
                needs_no_victims=False,
                knows_mldsa_and_oci_profiles=False,
                shrunken_nodes_wake_nominated_pods=False,
                groups_stop_at_the_first_gate=False,
                gates_are_measured_by_status=False,
                # Of 1.38: devices
                joins_names_of_devices=False,
                refuses_unreadable_attributes=False,
                compares_versions=False,
                keeps_shared_devices_from_exclusive_use=False,
                bad_pools_reject_one_node=False,
                refuses_negative_amounts=False,
                promotes_other_classes=False,
                limits_capacity_requests=False,
                # Of 1.38: metrics, configuration
                labels_entities=False,
                has_percentage_of_placements=False,
                has_placement_feasible=False,
                checks_plugins_of_placements=False,
            ),
            Behaviours(
                version="1.38",
                sums_whole_resizes=True,
                scales_by_image_volumes=True,
                budgets_stop_at_the_first_broken=True,
                has_pod_group_post_filter=True,
                node_name_narrows=True,
                knows_bind_mount_options=True,
                allocates_as_1_37=True,
                names_claims_to_deallocate=False,
                reports_of_preemption=True,
                pod_events_are_narrow=True,
                event_names=_EVENT_NAMES_OF_1_37,
                handled_event_names=_HANDLED_NAMES_OF_1_37,
                counts_victims_at_once=True,
                counts_entities=True,
                claims_stay_pending=True,
                gated_pods_wait_for_the_flush=True,
                nominates_gated_pods=True,
                # Of 1.38: pod groups
                groups_always_have_policies=True,
                gangs_wait_at_permit=False,
                tells_of_quorums=True,
                members_inherit_rejections=True,
                checks_whole_trees=True,
                searches_few_placements=True,
                merges_placements=True,
                empty_values_are_no_domains=True,
                failures_name_their_ancestor=True,
                composites_have_conditions=True,
                scheduled_groups_are_final=True,
                composite_version="v1beta1",
                ranks_nodes_by_victims=True,
                members_are_victims_by_themselves=True,
                # Of 1.38: single pods
                empty_selectors_count_all_pods=True,
                budgets_match_by_selector_alone=True,
                scores_pod_level_requests=True,
                compares_storage_exactly=True,
                needs_no_victims=True,
                knows_mldsa_and_oci_profiles=True,
                shrunken_nodes_wake_nominated_pods=True,
                groups_stop_at_the_first_gate=True,
                gates_are_measured_by_status=True,
                # Of 1.38: devices
                joins_names_of_devices=True,
                refuses_unreadable_attributes=True,
                compares_versions=True,
                keeps_shared_devices_from_exclusive_use=True,
                bad_pools_reject_one_node=True,
                refuses_negative_amounts=True,
                promotes_other_classes=True,
                limits_capacity_requests=True,
                # Of 1.38: metrics, configuration
                labels_entities=True,
                has_percentage_of_placements=True,
                has_placement_feasible=True,
                checks_plugins_of_placements=True,
            ),
        )
    }
)


# Version numbers as API servers tell them, and which of the followed versions belongs to one.

SEE_OTHER_VERSION: Final = "see --emulated-version"


def followed(server_version: str) -> str | None:
    """The newest followed version that is not newer than the API server; `None` where that cannot be read."""
    minor = minor_of(server_version)
    if minor is None:
        return None
    return next((version for version in reversed(BEHAVIOURS) if numbers_of(version) <= minor), next(iter(BEHAVIOURS)))


def to_try(wanted: str, in_force: str) -> list[str]:
    """The versions whose rules may replace those in force where the API server asks for `wanted`: that one, and if the
    configuration does not take it, those between the two, the newest first. If none does, `in_force` stays.
    """
    between = (each for each in BEHAVIOURS if numbers_of(in_force) < numbers_of(each) < numbers_of(wanted))
    return [wanted, *reversed(list(between))]


def had_by(versions: Iterable[str]) -> str:
    """Said of what the version in question does not have, and these do."""
    having = list(versions)
    return f"Kubernetes {listed(having)} {'has' if len(having) == 1 else 'have'} it: {SEE_OTHER_VERSION}"


def listed(versions: Iterable[str], last: str = "and") -> str:
    """`1.36, 1.37 and 1.38`."""
    *others, final = versions
    return f"{', '.join(others)} {last} {final}" if others else final


def minor_of(server_version: str) -> tuple[int, int] | None:
    """(1, 36) of `v1.36.3`; `None` for anything else."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?!\d)", server_version)
    return (int(match[1]), int(match[2])) if match else None


def numbers_of(version: str) -> tuple[int, ...]:
    """(1, 36) of `1.36`."""
    return tuple(int(part) for part in version.split("."))
