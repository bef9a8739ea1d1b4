"""The kinds of Kubernetes' own API groups: of which versions API servers of 1.36 to 1.38 serve them, gates aside.

From the OpenAPI documents of 1.36 and 1.37 and the registries of 1.38, without subresources, and from the deprecation
guide for versions that are served no more. A kind is its group, version and name together: `Deployment` of another
project's group is another kind, and one of `extensions/v1beta1` is none that a server takes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_SERVED: Final = """\
v1 Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate
v1 ReplicationController ResourceQuota Secret Service ServiceAccount ComponentStatus
admissionregistration.k8s.io/v1 MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration
apiextensions.k8s.io/v1 CustomResourceDefinition
apiregistration.k8s.io/v1 APIService
apps/v1 ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet
authentication.k8s.io/v1 SelfSubjectReview TokenRequest TokenReview
authorization.k8s.io/v1 LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
autoscaling/v1 HorizontalPodAutoscaler Scale
autoscaling/v2 HorizontalPodAutoscaler
batch/v1 CronJob Job
certificates.k8s.io/v1 CertificateSigningRequest ClusterTrustBundle PodCertificateRequest
coordination.k8s.io/v1 Lease
discovery.k8s.io/v1 EndpointSlice
events.k8s.io/v1 Event
flowcontrol.apiserver.k8s.io/v1 FlowSchema PriorityLevelConfiguration
networking.k8s.io/v1 IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR
node.k8s.io/v1 RuntimeClass
policy/v1 Eviction PodDisruptionBudget
rbac.authorization.k8s.io/v1 ClusterRole ClusterRoleBinding Role RoleBinding
resource.k8s.io/v1 DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice
scheduling.k8s.io/v1 PriorityClass
storage.k8s.io/v1 CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
storagemigration.k8s.io/v1 StorageVersionMigration
"""
# Served with `--runtime-config` only.
_QUERIED_FOR: Final = """\
admissionregistration.k8s.io/v1alpha1 MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1beta1 MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
certificates.k8s.io/v1alpha1 ClusterTrustBundle
certificates.k8s.io/v1beta1 ClusterTrustBundle PodCertificateRequest
coordination.k8s.io/v1alpha2 LeaseCandidate
coordination.k8s.io/v1beta1 LeaseCandidate
internal.apiserver.k8s.io/v1alpha1 StorageVersion
lifecycle.k8s.io/v1alpha1 Eviction EvictionRequest
networking.k8s.io/v1beta1 IPAddress ServiceCIDR
resource.k8s.io/v1alpha3 DeviceTaintRule ResourcePoolStatusRequest
resource.k8s.io/v1beta1 DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice
resource.k8s.io/v1beta2 DeviceClass DeviceTaintRule ResourceClaim ResourceClaimTemplate ResourceSlice
scheduling.k8s.io/v1alpha2 PodGroup Workload
scheduling.k8s.io/v1alpha3 CompositePodGroup PodGroup Workload
scheduling.k8s.io/v1beta1 CompositePodGroup PodGroup Workload
storage.k8s.io/v1beta1 VolumeAttributesClass
storagemigration.k8s.io/v1beta1 StorageVersionMigration
"""
_FORMER_GROUPS: Final = ("extensions",)


def _kinds(text: str) -> frozenset[tuple[str, str]]:
    lines = (line.split() for line in text.splitlines())
    return frozenset((version, kind) for version, *kinds in lines for kind in kinds)


# `apiVersion` and `kind` of what one of them serves, some when asked to.
SERVED: Final = _kinds(_SERVED) | _kinds(_QUERIED_FOR)
_GROUPS: Final = frozenset(version.rpartition("/")[0] for version, _ in SERVED) | frozenset(_FORMER_GROUPS)


def _newest() -> dict[tuple[str, str], str]:
    """By group and kind the version that servers serve without being asked to."""
    found: dict[tuple[str, str], str] = {}
    for served in (_kinds(_QUERIED_FOR), _kinds(_SERVED)):
        for version, kind in sorted(served):
            found[version.rpartition("/")[0], kind] = version
    return found


NEWEST: Final[Mapping[tuple[str, str], str]] = MappingProxyType(_newest())
# Of `extensions`, where they are now.
_MOVED: Final = MappingProxyType(
    {"DaemonSet": "apps", "Deployment": "apps", "ReplicaSet": "apps", "Ingress": "networking.k8s.io"}
    | {"NetworkPolicy": "networking.k8s.io"}
)


def is_of_kubernetes(api_version: str) -> bool:
    """Whether the group is one of Kubernetes' own, now or formerly."""
    return api_version.rpartition("/")[0] in _GROUPS


def served_instead(api_version: str, kind: str) -> str:
    """The version of the kind that is served; empty: the group has, or had, no such kind that is still served."""
    group = api_version.rpartition("/")[0]
    return NEWEST.get((_MOVED.get(kind, group) if group in _FORMER_GROUPS else group, kind), "")
