"""Names and numbers that Kubernetes itself has given a meaning, each in one place.

Annotations of volumes and claims stand in `api.storage`, gates and extension points in `upstream`.
"""

from typing import Final

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
"""Labels of nodes and volumes; the last two are those of before Kubernetes 1.17."""
OS: Final = "kubernetes.io/os"
ARCH: Final = "kubernetes.io/arch"
BETA_OS: Final = "beta.kubernetes.io/os"
BETA_ARCH: Final = "beta.kubernetes.io/arch"
"""Labels that a kubelet gives to its node; it still sets the last two, those of before Kubernetes 1.14."""

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
"""Taints that controllers give to nodes."""

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""kubectl's annotation; as long as the object itself."""

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
"""What `spec.schedulerName` is where nobody has set it."""
SCHEDULER_NAME_ANNOTATION: Final = "scheduler.alpha.kubernetes.io/name"
"""How pods named their scheduler before Kubernetes 1.6 had a field for it."""
SCHEDULER_PORT: Final = 10259
"""Where kube-scheduler serves health and metrics."""

MIN_NODE_SCORE: Final = 0
MAX_NODE_SCORE: Final = 100
"""Points that a plugin may give to a node, after normalizing and before its weight."""
