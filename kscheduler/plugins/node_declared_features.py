"""NodeDeclaredFeatures: some fields of a pod work only with a kubelet that declares support for them."""

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Final

import msgspec
import numpy as np

from kscheduler.api.core import Node, Pod, SecurityContext, Volume
from kscheduler.api.meta import KubeObject
from kscheduler.api.releases import Behaviours
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint, Resource
from kscheduler.framework.handle import Handle, PluginArgs
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import PASS_ALL, SKIPPED, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail, grouped
from kscheduler.framework.status import SUCCESS

RESTART_ALL_CONTAINERS: Final = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_ON_HOST_NETWORK: Final = "UserNamespacesHostNetworkSupport"
VOLUME_BIND_MOUNT_OPTIONS: Final = "VolumeBindMountOptions"
POD_CERTIFICATE_MLDSA: Final = "PodCertificateMLDSA"
SECURITY_PROFILE_OCI: Final = "SecurityProfileOCI"

_MLDSA_KEYS: Final = frozenset(("MLDSA44", "MLDSA65", "MLDSA87"))
_OCI: Final = "OCI"


def required_features(pod: Pod, behaviours: Behaviours) -> frozenset[str]:
    """The features that a node must declare to run the pod.

    Other features that kubelets declare are needed by updates of running pods only.
    """
    features = set()
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    if any(
        rule.action == "RestartAllContainers" for container in containers for rule in container.restart_policy_rules
    ):
        features.add(RESTART_ALL_CONTAINERS)
    if pod.spec.host_network and pod.spec.host_users is False:
        features.add(USER_NAMESPACES_ON_HOST_NETWORK)
    if behaviours.knows_bind_mount_options and any(
        mount.bind_mount_options for container in containers for mount in container.volume_mounts
    ):
        features.add(VOLUME_BIND_MOUNT_OPTIONS)
    if behaviours.knows_mldsa_and_oci_profiles:
        if any(map(_has_mldsa_key, pod.spec.volumes)):
            features.add(POD_CERTIFICATE_MLDSA)
        contexts = [each.security_context for each in containers]
        contexts += [each.security_context for each in pod.spec.ephemeral_containers]
        if any(map(_uses_oci_profile, (pod.spec.security_context, *contexts))):
            features.add(SECURITY_PROFILE_OCI)
    return frozenset(features)


def _has_mldsa_key(volume: Volume) -> bool:
    sources = volume.projected.sources if volume.projected is not None else ()
    certificates = (source.pod_certificate for source in sources)
    return any(each is not None and each.key_type in _MLDSA_KEYS for each in certificates)


def _uses_oci_profile(context: SecurityContext | None) -> bool:
    return context is not None and context.seccomp_profile is not None and context.seccomp_profile.type == _OCI


class _Required(msgspec.Struct, frozen=True):
    features: frozenset[str]


class NodeDeclaredFeatures(Plugin):
    """Rejects nodes that lack a required feature; evicting pods cannot add it."""

    name = "NodeDeclaredFeatures"
    depends_on = (Source.ROW,)
    judges_without_labels = True
    reads_pods = False
    reads_spec_only = True
    LACKING = -1
    reasons: ClassVar = {LACKING: "node(s) didn't match Pod's required features"}

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        del args
        self._behaviours = handle.behaviours

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """A node that is new or declares other features, or an update of the pod that changes what it requires."""
        node = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE)
        pod = ClusterEvent(Resource.POD, ActionType.UPDATE)
        return (ClusterEventWithHint(node, _after_node_change), ClusterEventWithHint(pod, self._after_pod_change))

    def sign(self, pod: PodInfo) -> Hashable:
        """The features that the pod requires."""
        return self._required(pod.pod)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        """Skip for pods that require no feature, as nearly all do."""
        del nodes
        features = self._required(pod.pod)
        if not features:
            return SKIPPED
        cycle.write(_Required(features))
        return PreFilterResult(SUCCESS)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes | None:
        """Rows that do not declare all required features: int64 [rows]. Decided once per distinct declared set."""
        del pod
        features = cycle.read(_Required).features
        verdicts = [0 if features <= declared else self.LACKING for declared in nodes.feature_sets]
        return np.array(verdicts, dtype=np.int64)[nodes.feature_set[rows]] if any(verdicts) else PASS_ALL

    def _required(self, pod: Pod) -> frozenset[str]:
        return required_features(pod, self._behaviours)

    def _after_pod_change(self, pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
        """The pod itself, if it needs other features now."""
        if not isinstance(old, Pod) or not isinstance(new, Pod):
            return QueueingHint.QUEUE
        if PodInfo(new).uid != pod.uid:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE if self._required(old) != self._required(new) else QueueingHint.SKIP

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        """Which required features the nodes do not declare."""
        del pod
        required = cycle.read(_Required).features
        lacking_on = grouped(rows, lambda row: tuple(sorted(required - nodes.feature_sets[nodes.feature_set[row]])))
        for lacking, group in lacking_on.items():
            text = f"status.declaredFeatures lacks {', '.join(lacking)}"
            yield Detail("featureNotDeclared", text, group, {"features": list(lacking)})


def _after_node_change(pod: PodInfo, old: KubeObject | None, new: KubeObject | None) -> QueueingHint:
    """A node that is new or declares other features. As upstream, whether these are enough is not checked."""
    del pod
    if not isinstance(old, Node) or not isinstance(new, Node):
        return QueueingHint.QUEUE
    changed = old.status.declared_features != new.status.declared_features
    return QueueingHint.QUEUE if changed else QueueingHint.SKIP
