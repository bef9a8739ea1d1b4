"""Stories of pods that wait for devices, and of what gives them some."""

from collections.abc import Iterator
from typing import Any, Final

from kscheduler.api.kinds import DEVICE_CLASSES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from tests.scheduling.never_stuck import words
from tests.scheduling.never_stuck.machine import NeverStuck
from tests.scheduling.never_stuck.story import P, Step, Story, node, pod, turns
from tests.scheduling.never_stuck.words import Tree

DRIVER: Final = "gpu.example.com"
PLUGIN: Final = "DynamicResources"


def put(kind: Kind, name: str, **parts: Any) -> Step:
    """An object comes, or takes the place of the one of its name."""

    def step(state: NeverStuck) -> None:
        state.server.put(kind, {"metadata": {"name": name}, **parts})

    return step


def gone(kind: Kind, name: str) -> Step:
    return lambda state: state.server.delete(kind, name)


def gpus(expression: str = "", **spec: Any) -> Step:
    """The class `gpu`, with one selector at most."""
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return put(DEVICE_CLASSES, "gpu", spec={"selectors": selectors, **spec})


def devices(*names: str, slices: int = 1, slice_name: str = "s0", **where: Any) -> Step:
    """A slice with these devices, of a pool of so many slices."""
    pool = {"name": "p0", "generation": 1, "resourceSliceCount": slices}
    own = {"driver": DRIVER, "pool": pool, "devices": [{"name": name} for name in names], **where}
    return put(RESOURCE_SLICES, slice_name, spec=own)


def claim(name: str = "d0", *held: str, **metadata: Any) -> Step:
    """A claim for one GPU, or one that holds these devices."""
    results = [{"request": "r", "driver": DRIVER, "pool": "p0", "device": device} for device in held]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    status: Tree = {"allocation": {"devices": {"results": results}}} if held else {}
    tree: Tree = {"spec": {"devices": {"requests": [request]}}, "status": status}

    def step(state: NeverStuck) -> None:
        state.server.put(RESOURCE_CLAIMS, {"metadata": {"name": name, **metadata}, **tree})

    return step


def user(name: str = "p0", **entry: str) -> Step:
    """The pod, with a claim of this source."""
    entries = [{"name": "d", **entry}]

    def step(state: NeverStuck) -> None:
        tree = words.pod_tree(name, "default", "", [])
        state.server.put(PODS, words.merged(tree, {"spec": {"resourceClaims": entries}}))

    return step


def generated(state: NeverStuck) -> None:
    """The controller makes the pod's claim from its template, and names it in the pod's status."""
    tree = state.server.get(PODS, P)
    assert tree is not None
    owner = {"kind": "Pod", "name": "p0", "uid": tree["metadata"]["uid"], "controller": True}
    claim("d0", ownerReferences=[owner])(state)
    state.server.deliver_all()
    tree["status"] = {**tree["status"], "resourceClaimStatuses": [{"name": "d", "resourceClaimName": "d0"}]}
    state.server.put(PODS, tree)


OWN: Final = user(resourceClaimName="d0")
ON_N0: Final[Tree] = {"nodeName": "n0"}
EVERYWHERE: Final[Tree] = {"allNodes": True}
IN_POOL_X: Final[Tree] = {
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": words.POOL, "operator": "In", "values": ["x"]}]}]
    }
}


def stories() -> Iterator[Story]:
    """Each event that DynamicResources has registered, and those of classes that NodeResourcesFit has."""
    without = (node("n0"), gpus(), claim(), OWN)
    yield Story(PLUGIN, "NodeAdd", (*without, devices("a", nodeName="n1")), node("n1"))
    yield Story(PLUGIN, "NodeUpdateNodeLabel", (*without, devices("a", **IN_POOL_X)), turns("n0", "pool x"))
    yield Story(PLUGIN, "resource.k8s.io/ResourceSliceAdd", without, devices("a", **ON_N0))
    yield Story(
        PLUGIN,
        "resource.k8s.io/ResourceSliceUpdate",
        (*without, devices(**ON_N0)),
        devices("a", **ON_N0),
    )
    # a pool of one slice has two, so that nobody knows which of them holds
    ambiguous = (*without, devices("a", **ON_N0), devices("b", slice_name="s1", **ON_N0))
    yield Story(PLUGIN, "resource.k8s.io/ResourceSliceDelete", ambiguous, gone(RESOURCE_SLICES, "s1"))
    yield Story(PLUGIN, "resource.k8s.io/DeviceClassAdd", (node("n0"), devices("a", **ON_N0), claim(), OWN), gpus())
    yield Story(
        PLUGIN,
        "resource.k8s.io/DeviceClassUpdate",
        (*without, gpus("device.driver == 'other'"), devices("a", **ON_N0)),
        gpus(),
    )
    taken = (*without, devices("a", **ON_N0), claim("d1", "a"))
    yield Story(PLUGIN, "resource.k8s.io/ResourceClaimUpdate", taken, claim("d1"))
    yield Story(PLUGIN, "resource.k8s.io/ResourceClaimDelete", taken, gone(RESOURCE_CLAIMS, "default/d1"))
    claimless = (node("n0"), gpus(), devices("a", **ON_N0))
    yield Story(PLUGIN, "resource.k8s.io/ResourceClaimAdd", (*claimless, OWN), claim(), is_gated=True)
    templated = (*claimless, user(resourceClaimTemplateName="t"))
    yield Story(PLUGIN, "UnschedulablePodUpdatePodGeneratedResourceClaim", templated, generated, is_gated=True)
    yield from _stories_of_extended_resources()


def _stories_of_extended_resources() -> Iterator[Story]:
    named = gpus(extendedResourceName=words.GPU)
    unserved = (node("n0"), named, pod("gpu"))
    yield Story(PLUGIN, "NodeUpdateNodeAllocatable", unserved, turns("n0", "gpu"))
    fit = "NodeResourcesFit"
    uncounted = (node("n0"), devices("a", **ON_N0), pod("gpu"))
    yield Story(fit, "resource.k8s.io/DeviceClassAdd", uncounted, named)
    yield Story(fit, "resource.k8s.io/DeviceClassUpdate", (gpus(), *uncounted), named)
