"""Taints, of nodes and of devices: in words and for kubectl, and which of them keep a pod away on purpose.

Some taints are there so that a pod like this one stays away, and to tolerate them, or to take them off, comes last:

    node.kubernetes.io/unschedulable, node-role.kubernetes.io/control-plane      the node should take nobody new
    kubernetes.io/arch=arm64, nvidia.com/gpu on a node with nvidia.com/gpu       it is for pods that ask for it
"""

from collections.abc import Collection
from typing import Final

import msgspec

from kscheduler.api.core import Taint
from kscheduler.api.well_known import UNSCHEDULABLE
from kscheduler.framework.pods.pod_info import PodInfo

CORDON: Final = Taint(UNSCHEDULABLE, "", "NoSchedule")
# The effects of taints that a filter knows.
KEEPING_OUT: Final = ("NoSchedule", "NoExecute")
_KUBERNETES: Final = "kubernetes.io"


class NamedTaint(msgspec.Struct, frozen=True):
    """A taint as facts have it."""

    key: str
    value: str
    effect: str

    @property
    def text(self) -> str:
        """`key=value:effect`"""
        return key_value_effect(self.key, self.value, self.effect)


def key_value_effect(key: str, value: str, effect: str) -> str:
    """As kubectl writes it: `key=value:effect`, without what is empty."""
    return f"{key}{f'={value}' if value else ''}{f':{effect}' if effect else ''}"


def keeps_away(taint: Taint, resources: Collection[str], pod: PodInfo) -> bool:
    """Whether the taint is there to keep such a pod away: it is Kubernetes' own, or has the name of a resource.

    A pod that asks for what the taint names, by its requests or its node rules, belongs there. `resources`: the node's.
    """
    return (is_of_kubernetes(taint.key) or taint.key in resources) and not _asks_for(taint.key, pod)


def is_of_kubernetes(key: str) -> bool:
    """Whether the taint is one of Kubernetes' own."""
    prefix = key.rpartition("/")[0]
    return prefix == _KUBERNETES or prefix.endswith(f".{_KUBERNETES}")


def _asks_for(name: str, pod: PodInfo) -> bool:
    terms = pod.required_node_terms or ()
    of_terms = any(requirement.key == name for term in terms for requirement in term.labels)
    of_tolerations = any(each.key == name for each in pod.tolerations)  # of whatever value: it is meant to be there
    return name in pod.requests or name in pod.pod.spec.node_selector or of_terms or of_tolerations
