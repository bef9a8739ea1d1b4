"""Pods and nodes in the words of the API, with everything that does not matter left out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from kscheduler.api.codec import UndecodableError, convert, copied
from kscheduler.api.core import Node, Pod, PodSpec, Taint
from kscheduler.api.quantity import QuantityError, nano_value
from kscheduler.scenario.errors import ClusterError
from kscheduler.scenario.fields import misspelt, nearest
from kscheduler.testing.cluster import Cluster

T = TypeVar("T", Node, Pod)

# Assertions about decisions; a failure shows the explanation.


def assert_goes_to(cluster: Cluster, pod: Pod, *nodes: str) -> None:
    """The pod goes to this node, or to one of these. Without any: it fits on no node."""
    actual = cluster.node_for(pod)
    if actual not in (nodes or ("",)):
        expected = " or ".join(nodes) or "no node"
        _fail(f"{pod.key} goes to {actual or 'no node'}, not to {expected}", cluster, pod)


def assert_rejected(cluster: Cluster, pod: Pod, node: str, *, by: str, reason: str = "") -> None:
    """The plugin `by` rejects the node for the pod, with this reason if one is given."""
    record = cluster.decide(pod).record
    statuses = dict(record.diagnosis.by_node()) if record is not None else {}
    status = statuses.get(node)
    if status is None:
        _fail(f"no plugin rejects {node} for {pod.key}", cluster, pod)
    elif status.plugin != by:
        _fail(f"{status.plugin} rejects {node} for {pod.key} before {by} is asked", cluster, pod)
    elif reason and reason not in status.reasons:
        _fail(f"{by} rejects {node} for {pod.key} because of {status.message!r}", cluster, pod)


# Its name before 0.2; kept until 0.3.
assert_turned_down = assert_rejected


def assert_prefers(cluster: Cluster, pod: Pod, plugin: str, better: str, worse: str) -> None:
    """The plugin gives the node `better` more points than the node `worse`; both fit."""
    points = cluster.points(pod, plugin)
    for node in (better, worse):
        if node not in points:
            _fail(f"{node} does not fit {pod.key}", cluster, pod)
    if points[better] <= points[worse]:
        text = f"{plugin} gives {better} {points[better]} points and {worse} {points[worse]}"
        _fail(text, cluster, pod)


def _fail(text: str, cluster: Cluster, pod: Pod) -> None:
    raise AssertionError(f"{text}\n\n{cluster.explain(pod)}")


# Fields of a pod's spec besides those of `PodSpec`, which are accepted and mean nothing here.
_READ_BY_NO_SCHEDULER: Final = frozenset(
    (
        *("activeDeadlineSeconds", "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks"),
        *("ephemeralContainers", "hostAliases", "hostIPC", "hostNetwork", "hostPID", "hostUsers", "hostname"),
        *("hostnameOverride", "imagePullSecrets", "os", "preemptionPolicy", "readinessGates", "restartPolicy"),
        *("runtimeClassName", "securityContext", "serviceAccount", "serviceAccountName", "setHostnameAsFQDN"),
        *("shareProcessNamespace", "subdomain", "terminationGracePeriodSeconds", "workloadRef"),
    )
)


class ObjectMistakeError(ClusterError, TypeError):
    """What `make_pod` or `make_node` was given makes no object."""


def make_node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    unschedulable: bool = False,
    **allocatable: str,
) -> Node:
    """A node with 4 CPU, 8Gi and room for 110 pods, unless keywords (`cpu="2"`) say otherwise.

    Raises `ObjectMistakeError`, a `ClusterError` and `TypeError`: for fields of a wrong type, for a keyword whose value
    is no quantity or below zero, and for a taint that no node can have.
    """
    for keyword, amount in allocatable.items():
        hint = nearest(keyword, ("labels", "annotations", "taints", "unschedulable"))
        meant = f"do you mean {hint}=?" if hint else "other keywords are resources, such as cpu='2'"
        _check_amount("make_node: ", keyword, amount, f": {meant}")
    for number, taint in enumerate(taints):
        for unknown in taint.keys() - {*Taint.__struct_encode_fields__, "timeAdded"}:
            raise ObjectMistakeError(
                f"make_node: taints[{number}].{unknown} is not a field: a taint has key, value and effect"
            )
        if not (taint.get("key") and taint.get("effect")):
            raise ObjectMistakeError(f"make_node: taints[{number}] needs a key and an effect, as on the API server")
    gives = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    metadata = {"name": name, "uid": f"uid-of-{name}"}
    tree = {
        "metadata": {**metadata, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"taints": [dict(taint) for taint in taints], "unschedulable": unschedulable},
        "status": {"allocatable": gives, "capacity": gives},
    }
    return _made("make_node", tree, Node)


def make_pod(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    node: str = "",
    **spec: Any,
) -> Pod:
    """A pod with one container; `node`: it runs there. Other keywords are fields of its spec, spelled as in the API.

    Raises `ObjectMistakeError`, a `ClusterError` and `TypeError`: for fields of a wrong type, for a keyword that is no
    field of a spec, and for an amount that is no quantity or below zero.
    """
    _refuse_unknown(spec)
    if requests and "containers" in spec:
        raise ObjectMistakeError(
            "make_pod: requests are those of its one container: write them into `containers` instead"
        )
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{namespace}-{name}"}
    container = {"name": "main", "image": "app", "resources": {"requests": dict(requests or {})}}
    tree = {
        "metadata": {**metadata, "labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"schedulerName": "kscheduler", "nodeName": node, "containers": [container], **spec},
    }
    pod = _made("make_pod", tree, Pod)
    for where, amounts in _amounts_of(pod.spec):
        for resource, amount in amounts.items():
            _check_amount(f"make_pod: {where}: ", resource, amount)
    return pod


def _made(maker: str, tree: Mapping[str, Any], kind: type[T]) -> T:
    try:
        return convert(copied(tree), kind)
    except UndecodableError as problem:
        raise ObjectMistakeError(f"{maker}: {problem}") from problem


def _amounts_of(spec: PodSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for number, container in enumerate(containers):
            where = "requests" if len(spec.containers) == 1 and field == "containers" else f"{field}[{number}]"
            yield where, container.resources.requests
    yield "overhead", spec.overhead


def _check_amount(where: str, resource: str, amount: Any, hint: str = "") -> None:
    """Raises `ObjectMistakeError`. `hint`: what may be meant where it is no amount."""
    try:
        is_below_zero = nano_value(copied(amount)) < 0
    except (QuantityError, TypeError, AttributeError):
        raise ObjectMistakeError(f"{where}{resource}={amount!r} is no amount of a resource{hint}") from None
    if is_below_zero:
        raise ObjectMistakeError(f"{where}{resource}={amount!r} is less than nothing")


def _refuse_unknown(spec: Mapping[str, Any]) -> None:
    known = {*PodSpec.__struct_encode_fields__, *_READ_BY_NO_SCHEDULER}
    for keyword in spec:
        if keyword in known:
            continue
        first, *others = keyword.split("_")
        camel = first + "".join(part.title() for part in others)
        meant = camel if camel in known else nearest(keyword, known)
        meant = "node" if meant == "nodeName" else meant
        raise ObjectMistakeError(
            f"make_pod: {keyword} is no field of a pod's spec{f': do you mean {meant}?' if meant else ''}"
        )
    for problem in misspelt(spec, PodSpec):
        raise ObjectMistakeError(f"make_pod: {problem}")
