"""What is written to an extender, and what it answers: `k8s.io/kube-scheduler/extender/v1` as JSON.

The names are those of Go's fields (`NodeNames`, `FailedAndUnresolvableNodes`), and Go reads them whatever their case
is: extenders answer `nodeNames` or `nodenames`, and kube-scheduler understands. So do the readers here. `null` means
"not there"; members that are not known are skipped. Of a node in an answer only the name counts.

Pods and nodes come as encoded JSON (`msgspec.Raw`), so that an object is encoded once for all calls about it. An answer
that is written exactly as Go writes it is decoded in one step; any other, member by member, which takes ten times as
long: an answer about 5,000 nodes must not hold the decisions.
Limit: bytes after the first JSON value are refused, which Go does not read.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec

from kscheduler.api.codec import without_nulls

Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_ENCODER: Final = msgspec.json.Encoder()
_Members = dict[str, Any]


class ExtenderResponseError(ValueError):
    """An answer is not what the protocol says. The message names the field."""


# --- requests ---------------------------------------------------------------------------------------------------------


def nodes_request(pod: msgspec.Raw, names: Sequence[str], nodes: Sequence[msgspec.Raw] | None = None) -> bytes:
    """To filter and to prioritize. `nodes` are the whole nodes, for an extender that does not know them itself."""
    items = None if nodes is None else {"metadata": {}, "items": nodes}
    return _ENCODER.encode({"Pod": pod, "Nodes": items, "NodeNames": names if nodes is None else None})


class VictimsOnNode(msgspec.Struct, frozen=True):
    """Pods that would be evicted from a node."""

    uids: tuple[str, ...]
    pdb_violations: int = 0
    """Victims whose eviction would violate a disruption budget."""


def preemption_request(
    pod: msgspec.Raw, victims: Mapping[str, VictimsOnNode], encoded: Callable[[str], msgspec.Raw] | None = None
) -> bytes:
    """To preempt. `encoded` gives a victim by its UID, for an extender that does not know pods itself."""

    def member(found: VictimsOnNode) -> _Members:
        pods = [{"UID": uid} if encoded is None else encoded(uid) for uid in found.uids]
        return {"Pods": pods, "NumPDBViolations": found.pdb_violations}

    by_node = {name: member(found) for name, found in victims.items()}
    whole, meta = (None, by_node) if encoded is None else (by_node, None)
    return _ENCODER.encode({"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta})


def bind_request(namespace: str, name: str, uid: str, node: str) -> bytes:
    return _ENCODER.encode({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node})


# --- answers ----------------------------------------------------------------------------------------------------------


class FilterResponse(msgspec.Struct, frozen=True):
    """Which nodes an extender leaves, and why it rejected others."""

    node_names: tuple[str, ...] | None = None
    """From `NodeNames`."""
    nodes: tuple[str, ...] | None = None
    """The names in `Nodes`."""
    failed: Mapping[str, str] = {}
    unresolvable: Mapping[str, str] = {}
    """Eviction of pods would not help there."""
    error: str = ""


class _Named(msgspec.Struct):
    name: str


class _Item(msgspec.Struct):
    metadata: _Named


class _NodeList(msgspec.Struct):
    items: list[_Item]


class _ExtenderFilterResult(msgspec.Struct, forbid_unknown_fields=True, rename="pascal"):
    nodes: _NodeList | None = None
    node_names: tuple[str, ...] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str = ""


class _HostPriority(msgspec.Struct, forbid_unknown_fields=True, rename="pascal"):
    host: str
    score: Int64


_filter_result: Final = msgspec.json.Decoder(_ExtenderFilterResult)


class _LowerCaseHostPriority(msgspec.Struct, forbid_unknown_fields=True):
    host: str
    score: Int64


_host_priorities: Final = msgspec.json.Decoder(list[_HostPriority])
_lower_case_host_priorities: Final = msgspec.json.Decoder(list[_LowerCaseHostPriority])


def read_filter_response(body: bytes) -> FilterResponse:
    """Raises `ExtenderResponseError`."""
    try:
        found = _filter_result.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _any_filter_answer(body)
    nodes = None if found.nodes is None else tuple(item.metadata.name for item in found.nodes.items)
    failed, unresolvable = found.failed_nodes or {}, found.failed_and_unresolvable_nodes or {}
    return FilterResponse(found.node_names, nodes, failed, unresolvable, found.error)


def _any_filter_answer(body: bytes) -> FilterResponse:
    members = _members(_decoded(body), "the answer")
    names = members.get("nodenames")
    return FilterResponse(
        node_names=None if names is None else _typed(names, tuple[str, ...], "NodeNames"),
        nodes=_node_names(members.get("nodes")),
        failed=_typed(members.get("failednodes", {}), dict[str, str], "FailedNodes"),
        unresolvable=_typed(
            members.get("failedandunresolvablenodes", {}), dict[str, str], "FailedAndUnresolvableNodes"
        ),
        error=_typed(members.get("error", ""), str, "Error"),
    )


def _node_names(nodes: Any) -> tuple[str, ...] | None:
    if nodes is None:
        return None
    items = _typed(_members(nodes, "Nodes").get("items", []), list[Any], "Nodes.items")
    found = []
    for index, item in enumerate(items):
        where = f"Nodes.items[{index}]"
        metadata = _members(_members(item, where).get("metadata", {}), f"{where}.metadata")
        found.append(_typed(metadata.get("name", ""), str, f"{where}.metadata.name"))
    return tuple(found)


def read_scores(body: bytes) -> tuple[tuple[str, int], ...]:
    """The node names and points in an answer to prioritize. Raises `ExtenderResponseError`."""
    for decoder in (_host_priorities, _lower_case_host_priorities):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return tuple((each.host, each.score) for each in decoder.decode(body))
    return _any_scores(body)


def _any_scores(body: bytes) -> tuple[tuple[str, int], ...]:
    tree = _decoded(body)
    found = []
    for index, item in enumerate([] if tree is None else _typed(tree, list[Any], "the answer")):
        members = _members(item, f"[{index}]")
        host = _typed(members.get("host", ""), str, f"[{index}].Host")
        found.append((host, _typed(members.get("score", 0), Int64, f"[{index}].Score")))
    return tuple(found)


def read_victims(body: bytes) -> dict[str, VictimsOnNode]:
    """Victims by node. A node without any stays in the answer: what that means is the caller's to say.

    Raises `ExtenderResponseError`.
    """
    by_node = _members(_decoded(body), "the answer").get("nodenametometavictims", {})
    if not isinstance(by_node, dict):
        message = "NodeNameToMetaVictims is no object"
        raise ExtenderResponseError(message)
    return {name: _victims(tree, f"NodeNameToMetaVictims[{name}]") for name, tree in by_node.items()}


def _victims(tree: Any, where: str) -> VictimsOnNode:
    if tree is None:
        return VictimsOnNode(())
    members = _members(tree, where)
    pods = _typed(members.get("pods", []), list[Any], f"{where}.Pods")
    uids = tuple(
        _typed(_members(pod, f"{where}.Pods[{index}]").get("uid", ""), str, f"{where}.Pods[{index}].UID")
        for index, pod in enumerate(pods)
    )
    return VictimsOnNode(uids, _typed(members.get("numpdbviolations", 0), Int64, f"{where}.NumPDBViolations"))


def read_bind_error(body: bytes) -> str:
    """The error in the answer to a bind, or empty. Raises `ExtenderResponseError`."""
    found: str = _typed(_members(_decoded(body), "the answer").get("error", ""), str, "Error")
    return found


# --- reading ----------------------------------------------------------------------------------------------------------


def _decoded(body: bytes) -> Any:
    if not body.strip():
        message = "the answer is empty"
        raise ExtenderResponseError(message)
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = f"the answer is not JSON: {error}"
        raise ExtenderResponseError(message) from None


def _members(tree: Any, where: str) -> _Members:
    """An object's members by the lower case of their names; `null` has none."""
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        message = f"{where} is no object"
        raise ExtenderResponseError(message)
    return {key.lower(): value for key, value in tree.items() if value is not None}


def _typed(tree: Any, kind: Any, where: str) -> Any:
    try:
        return msgspec.convert(without_nulls(tree), kind)
    except (msgspec.ValidationError, RecursionError) as error:
        message = f"{where}: {error}"
        raise ExtenderResponseError(message) from None
