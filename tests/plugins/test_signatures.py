"""A signature covers all that a plugin reads of a pod: pods that could be judged differently are signed differently."""

from typing import Any

import pytest

from kscheduler.api.core import Pod
from kscheduler.framework.plugin import UNSIGNABLE
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.image_locality import ImageLocality
from kscheduler.plugins.in_tree import registry
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.plugins.node_name import NodeName
from kscheduler.plugins.node_ports import NodePorts
from kscheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.plugins.node_unschedulable import NodeUnschedulable
from kscheduler.plugins.taint_toleration import TaintToleration
from tests.plugins.made import HANDLE, pod, requesting, with_port


def affine(kind: str, value: Any) -> Pod:
    return pod(affinity={"nodeAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": value}})


TERM = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
GPU: dict[str, Any] = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}

DIFFERENT = {
    "node name": (NodeName, pod(nodeName="a"), pod(nodeName="b")),
    "tolerations, cordon": (NodeUnschedulable, pod(), pod(**GPU)),
    "tolerations, taints": (TaintToleration, pod(), pod(**GPU)),
    "node selector": (NodeAffinity, pod(nodeSelector={"a": "1"}), pod(nodeSelector={"a": "2"})),
    "required affinity": (NodeAffinity, pod(), affine("required", {"nodeSelectorTerms": [TERM]})),
    "required but impossible": (NodeAffinity, pod(), affine("required", {"nodeSelectorTerms": []})),
    "preferred weight": (
        NodeAffinity,
        affine("preferred", [{"weight": 1, "preference": TERM}]),
        affine("preferred", [{"weight": 2, "preference": TERM}]),
    ),
    "port": (NodePorts, with_port(port=80), with_port(port=81)),
    "port address": (NodePorts, with_port(port=80), with_port(port=80, address="10.0.0.1")),
    "request": (NodeResourcesFit, requesting(requests={"cpu": "1"}), requesting(requests={"cpu": "2"})),
    "request for scoring": (NodeResourcesFit, pod(), pod(containers=[{"name": "a"}, {"name": "b"}])),
    "balanced request": (
        NodeResourcesBalancedAllocation,
        requesting(requests={"cpu": "1"}),
        requesting(requests={"memory": "1"}),
    ),
    "image": (ImageLocality, pod(containers=[{"image": "a"}]), pod(containers=[{"image": "b"}])),
    "image twice": (ImageLocality, pod(containers=[{"image": "a"}]), pod(containers=[{"image": "a"}, {"image": "a"}])),
    "which image twice": (
        ImageLocality,
        pod(containers=[{"image": "a"}, {"image": "a"}, {"image": "b"}]),
        pod(containers=[{"image": "a"}, {"image": "b"}, {"image": "b"}]),
    ),
    "image as a volume": (
        ImageLocality,
        pod(containers=[{"image": "a"}, {"image": "b"}]),
        pod(containers=[{"image": "a"}], volumes=[{"name": "v", "image": {"reference": "b"}}]),
    ),
}


@pytest.mark.parametrize(("plugin", "one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_pods_that_differ_where_the_plugin_reads_are_signed_differently(plugin: Any, one: Pod, other: Pod) -> None:
    signer = plugin(None, HANDLE)
    assert signer.sign(PodInfo(one)) != signer.sign(PodInfo(other))
    assert hash(signer.sign(PodInfo(one))) == hash(signer.sign(PodInfo(one)))


def test_names_and_labels_are_in_no_signature() -> None:
    one, other = pod("one", **GPU), pod("other", **GPU)
    other.metadata.labels = {"apps.kubernetes.io/pod-index": "7"}
    plugins = registry()
    for name in plugins.names():
        sign: Any = getattr(plugins.build(name, None, HANDLE), "sign", None)
        if sign is not None:
            assert sign(PodInfo(one)) == sign(PodInfo(other))


def test_a_pod_whose_codes_are_numbered_within_one_cycle_is_not_signed() -> None:
    many = requesting(requests={f"example.com/r{number}": "1" for number in range(60)})
    assert NodeResourcesFit(None, HANDLE).sign(PodInfo(many)) is UNSIGNABLE
