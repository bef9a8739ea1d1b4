"""Objects by group, version and kind: what is read as which version, and what is left out, by name.

The problem: looking at `kind` alone places the pods of a StatefulSet of another project (apps.kruise.io) as if
it were one of apps/v1, and reads a claim of resource.k8s.io/v1beta1, whose requests have another form, as v1. kubectl
says `no matches for kind` of versions that no server serves any more.

The idea: objects pass here when they are read, once. Versions that API servers serve beside the one that scheduling
rules read are converted to it; versions and kinds that are not known are left out and noted with group and version,
and the rest of the file goes on. Who comes after may look at the kind alone. An object without `apiVersion` is what its
kind says, as in the answers of an API server, whose lists name the version once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from kscheduler.api.devices import GROUP as DEVICES
from kscheduler.api.groups import SCHEDULER_PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS
from kscheduler.api.releases import VERSION
from kscheduler.api.served_kinds import NEWEST, SERVED, is_of_kubernetes, served_instead
from kscheduler.api.topologies import TOPOLOGY_KINDS
from kscheduler.scenario.fields import nearest
from kscheduler.scenario.object_files import Document

Tree = dict[str, Any]

# Kinds of other projects that scheduling rules read.
_OF_OTHERS: Final = frozenset(
    (kind.group_version, kind.name)
    for kind in (SCHEDULER_PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS, *TOPOLOGY_KINDS.values())
)
# Fields of a request in v1beta1 that are below `exactly` since v1beta2.
_EXACTLY: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
    "derivedAttributes",
)
_KINDS: Final = tuple(sorted({kind for _, kind in SERVED}))


def known(documents: Iterable[Document], notes: list[str], *, are_new: bool = False) -> list[Document]:
    """The objects of kinds that are known, in the versions that scheduling rules read. `notes`: gets the others.

    `are_new`: pods are to be made of them, and of one that has a pod template it is said how to ask about its pods.
    """
    make_pods: set[str] = set()
    found: list[Document] = []
    unknown: Counter[tuple[str, str]] = Counter()
    unserved: Counter[tuple[str, str]] = Counter()
    for document in documents:
        version, kind = document.tree.get("apiVersion") or "", str(document.tree.get("kind"))
        version = version if isinstance(version, str) else str(version)
        convert = _CONVERTED.get((version, kind))
        if convert is not None:
            found.append(replace(document, tree=convert(document.tree)))
        elif not version or (version, kind) in SERVED or (version, kind) in _OF_OTHERS:
            found.append(document)
        elif instead := _instead(version, kind):
            unserved[kind, f"of {version} (served: {instead})"] += 1
        else:
            unknown[kind, f"of {version}{_meant(version, kind)}"] += 1
            if are_new and _has_pod_template(document.tree):
                make_pods.add(kind)
    if unserved:
        notes.append(f"versions that API servers since {VERSION} do not serve are left out: {_listed(unserved)}")
    if unknown:
        notes.append(f"kinds that are not known here are left out, and make no pods: {_listed(unknown)}")
    if make_pods:
        notes.append(
            f"what controllers make of {', '.join(sorted(make_pods))} is not known here: give its pods, or a "
            "Deployment with their template for each kind of them (simulate: and --replicas N), and their PodGroup "
            "if they are a gang"
        )
    return found


def _has_pod_template(tree: Any) -> bool:
    """Whether there is a pod's spec anywhere in an object, as in a PyTorchJob for each of its roles."""
    if isinstance(tree, dict):
        return isinstance(tree.get("containers"), list) or any(map(_has_pod_template, tree.values()))
    return isinstance(tree, list) and any(map(_has_pod_template, tree))


def _instead(version: str, kind: str) -> str:
    if is_of_kubernetes(version):
        return served_instead(version, kind)
    group = version.rpartition("/")[0]
    return next((served for served, name in _OF_OTHERS if name == kind and served.rpartition("/")[0] == group), "")


def _meant(version: str, kind: str) -> str:
    near = nearest(kind, _KINDS) if is_of_kubernetes(version) and kind not in _KINDS else ""
    return f" (do you mean {near}?)" if near else ""


def _listed(counts: Mapping[tuple[str, str], int]) -> str:
    return ", ".join(f"{kind} ({count}) {version}" for (kind, version), count in sorted(counts.items()))


# --- conversions ------------------------------------------------------------------------------------------------------


def _claim_of_v1beta1(tree: Tree) -> Tree:
    """A claim, or a template of claims: `exactly` came with v1beta2."""
    spec = tree.get("spec")
    if isinstance(spec, dict) and tree.get("kind") == "ResourceClaimTemplate":
        return {**tree, "spec": {**spec, "spec": _claim_spec(spec.get("spec"))}}
    return {**tree, "spec": _claim_spec(spec)}


def _claim_spec(spec: Any) -> Any:
    devices = spec.get("devices") if isinstance(spec, dict) else None
    requests = devices.get("requests") if isinstance(devices, dict) else None
    if not isinstance(spec, dict) or not isinstance(devices, dict) or not isinstance(requests, list):
        return spec
    return {**spec, "devices": {**devices, "requests": [_request(each) for each in requests]}}


def _request(request: Any) -> Any:
    if not isinstance(request, dict) or not any(name in request for name in _EXACTLY):
        return request
    others = {name: value for name, value in request.items() if name not in _EXACTLY}
    return {**others, "exactly": {name: request[name] for name in _EXACTLY if name in request}}


def _slice_of_v1beta1(tree: Tree) -> Tree:
    """What is below `basic` stands beside the device's name since v1beta2."""
    spec = tree.get("spec")
    devices = spec.get("devices") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(devices, list):
        return tree
    return {**tree, "spec": {**spec, "devices": [_device(each) for each in devices]}}


def _device(device: Any) -> Any:
    basic = device.get("basic") if isinstance(device, dict) else None
    if not isinstance(basic, dict):
        return device
    return {**{name: value for name, value in device.items() if name != "basic"}, **basic}


def _group_of_v1alpha2(tree: Tree) -> Tree:
    """The mode of disruption was a word."""
    spec = tree.get("spec")
    mode = spec.get("disruptionMode") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(mode, str):
        return tree
    return {**tree, "spec": {**spec, "disruptionMode": {"all" if mode == "PodGroup" else "single": {}}}}


def _as_newest(change: Callable[[Tree], Tree], group: str) -> Callable[[Tree], Tree]:
    def convert(tree: Tree) -> Tree:
        return {**change(tree), "apiVersion": NEWEST[group, str(tree["kind"])]}

    return convert


def _unchanged(tree: Tree) -> Tree:
    return tree


_GROUPS: Final = "scheduling.k8s.io"
# By `apiVersion` and `kind`: to the version that scheduling rules read.
_CONVERTED: Final[Mapping[tuple[str, str], Callable[[Tree], Tree]]] = MappingProxyType(
    {
        (f"{group}/{version}", kind): _as_newest(change, group)
        for group, version, kinds, change in (
            (DEVICES, "v1beta1", ("ResourceClaim", "ResourceClaimTemplate"), _claim_of_v1beta1),
            (DEVICES, "v1beta1", ("ResourceSlice",), _slice_of_v1beta1),
            (DEVICES, "v1beta1", ("DeviceClass",), _unchanged),
            (
                DEVICES,
                "v1beta2",
                ("DeviceClass", "DeviceTaintRule", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
                _unchanged,
            ),
            (DEVICES, "v1alpha3", ("DeviceTaintRule",), _unchanged),
            (_GROUPS, "v1alpha2", ("PodGroup",), _group_of_v1alpha2),
            (_GROUPS, "v1alpha3", ("PodGroup",), _unchanged),
        )
        for kind in kinds
    }
)
