"""Names and numbers that Kubernetes itself has given a meaning, each in one place.

Annotations of volumes and claims stand in `api.storage`, gates and extension points in `upstream`.
"""

from typing import Final

# The kubelet sets it on what it shows of a static pod.
MIRROR_POD: Final = "kubernetes.io/config.mirror"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
# Labels of nodes and volumes; the last two are those of before Kubernetes 1.17.
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"
BETA_OS: Final = "beta.kubernetes.io/os"
# Labels that a kubelet gives to its node; it still sets the last two, those of before Kubernetes 1.14.
BETA_ARCH: Final = "beta.kubernetes.io/arch"

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
# Taints that controllers give to nodes.
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"

# kubectl's annotation; as long as the object itself.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

# What `spec.schedulerName` is where nobody has set it.
DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
# How pods named their scheduler before Kubernetes 1.6 had a field for it.
SCHEDULER_NAME_ANNOTATION: Final = "scheduler.alpha.kubernetes.io/name"
# Where kube-scheduler serves health and metrics.
SCHEDULER_PORT: Final = 10259

MIN_NODE_SCORE: Final = 0
# Points that a plugin may give to a node, after normalizing and before its weight.
MAX_NODE_SCORE: Final = 100
