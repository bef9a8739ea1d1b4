"""Objects that an API server refuses, and how to send them: one table for the embedded server and the real one.

What the real server (v1.36) answers to each is recorded in `bad_objects.json`: code, reason and message. The embedded
one must answer the same (`test_bad_objects.py`); that the real one still says so is checked end to end.
"""

import copy
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAMESPACE = "bad-objects"
RECORDED = Path(__file__).with_name("bad_objects.json")
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"

_MASKS = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r',"batch.kubernetes.io/controller-uid":"<uid>"'), ""),
    (
        re.compile(r"Invalid value: \{\"(labels|metadata|[Dd]evices|[Ss]pec|IntValue|string)\".*\}: ", re.DOTALL),
        "Invalid value: {...}: ",
    ),
    # The words of a CEL parser, and where it stopped, are its own.
    (re.compile(r"ERROR: <input>:\d+:\d+: Syntax error: .*", re.DOTALL), "ERROR: Syntax error"),
    (re.compile(r"\n@@ .*", re.DOTALL), ""),
    (re.compile(r'patch: Invalid value: "\{.*\}": ', re.DOTALL), 'patch: Invalid value: "{...}": '),
    (re.compile(r"resourceVersion: \S+"), "resourceVersion: <version>"),
)

Object = dict[str, Any]
# Method, path with query, body, content type: code and decoded answer.
Send = Callable[[str, str, Any, str], Awaitable[tuple[int, Object]]]

CLUSTER_SCOPED = frozenset(
    {
        "nodes",
        "namespaces",
        "persistentvolumes",
        "priorityclasses",
        "storageclasses",
        "clusterroles",
        "clusterrolebindings",
        "deviceclasses",
        "resourceslices",
    }
)


@dataclass(frozen=True)
class Case:
    """One refusal: an object that cannot be created, or a change of one that can."""

    name: str
    collection: str
    """`v1/pods`, `apps/v1/deployments`."""
    body: Any
    change: Any = None
    """With it the body is created first, and this is then merged into it, or sent as a patch."""
    patch: str = ""
    """Content type of the patch; empty: a PUT of the merged object."""
    query: str = "fieldValidation=Strict"
    subresource: str = ""

    @property
    def path(self) -> str:
        """The collection's URL path."""
        group_version, _, plural = self.collection.rpartition("/")
        prefix = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
        return f"{prefix}/{plural}" if plural in CLUSTER_SCOPED else f"{prefix}/namespaces/{NAMESPACE}/{plural}"


def merged(value: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, dict):
        return change
    result = copy.deepcopy(value) if isinstance(value, dict) else {}
    for key, part in change.items():
        if part is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), part)
    return result


async def answer(send: Send, case: Case) -> Object:
    """Code, reason and message of a server's answer to a case; what was created is deleted again."""
    code, value = await send("POST", f"{case.path}?{case.query}", case.body, JSON)
    if case.change is None:
        if code < 300:
            await _delete(send, case, value)
        return _outcome(code, value)
    assert code < 300, f"{case.name}: {value}"
    path = f"{case.path}/{value['metadata']['name']}" + (f"/{case.subresource}" if case.subresource else "")
    try:
        if case.patch:
            return _outcome(*await send("PATCH", f"{path}?{case.query}&fieldManager=t", case.change, case.patch))
        # Controllers may have written meanwhile: only a case about versions sends one.
        unversioned = merged(value, {"metadata": {"resourceVersion": None}})
        return _outcome(*await send("PUT", f"{path}?{case.query}", merged(unversioned, case.change), JSON))
    finally:
        await _delete(send, case, value)


async def _delete(send: Send, case: Case, value: Object) -> None:
    now = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
    await send("DELETE", f"{case.path}/{value['metadata']['name']}", now, JSON)


def _outcome(code: int, value: Object) -> Object:
    return {"code": code} if code < 300 else {"code": code, "reason": value.get("reason"), "message": value["message"]}


def masked(outcome: Object) -> Object:
    """The outcome without what differs from run to run, or is Go's own print of a whole structure."""
    if "message" not in outcome:
        return outcome
    message = outcome["message"]
    for pattern, shown in _MASKS:
        message = pattern.sub(shown, message)
    return {**outcome, "message": message}


def recorded() -> dict[str, Object]:
    """What the real server answered, by the case's name."""
    answers: dict[str, Object] = json.loads(RECORDED.read_text())
    return answers


def metadata(**fields: Any) -> Object:
    return {"name": "bad", **fields}


def container(**fields: Any) -> Object:
    return {"name": "main", "image": "registry.example/a:1", **fields}


def pod_spec(**fields: Any) -> Object:
    return {"automountServiceAccountToken": False, "containers": [container()], **fields}


def pod(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(), "spec": pod_spec(**spec)}


def with_container(**fields: Any) -> Object:
    return pod(containers=[container(**fields)])


def requests(**amounts: Any) -> Object:
    return with_container(resources={"requests": amounts})


def limited(requested: Object, limits: Object) -> Object:
    return with_container(resources={"requests": requested, "limits": limits})


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def node_affinity(*terms: Any) -> Object:
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}})


def node_expression(**expression: Any) -> Object:
    return node_affinity({"matchExpressions": [expression]})


def node_preference(*terms: Any) -> Object:
    return pod(affinity={"nodeAffinity": {PREFERRED: list(terms)}})


def pod_affinity(*terms: Any, kind: str = "podAffinity", when: str = REQUIRED) -> Object:
    return pod(affinity={kind: {when: list(terms)}})


def toleration(**fields: Any) -> Object:
    return pod(tolerations=[fields])


def spread(*constraints: Any) -> Object:
    return pod(topologySpreadConstraints=list(constraints))


def constraint(**fields: Any) -> Object:
    selector = {"labelSelector": {"matchLabels": {"a": "b"}}}
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **selector, **fields}


def template(labels: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"labels": {"app": "a"} if labels is None else labels}, "spec": pod_spec(**spec)}


def workload(kind: str, **spec: Any) -> Object:
    fields = {"selector": {"matchLabels": {"app": "a"}}, "template": template(), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata(), "spec": fields}


def deployment(**spec: Any) -> Object:
    return workload("Deployment", **spec)


def job(**spec: Any) -> Object:
    fields = {"template": template(restartPolicy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(), "spec": fields}


def priority_class(**fields: Any) -> Object:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata(), **fields}


def budget(**spec: Any) -> Object:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata(), "spec": spec}


def node(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata(), "spec": spec}


def service(**spec: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata(), "spec": {"ports": [{"port": 80}], **spec}}


def claim(**spec: Any) -> Object:
    fields = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata(), "spec": fields}


def volume(**spec: Any) -> Object:
    source = {"hostPath": {"path": "/a"}}
    fields = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, **source, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata(), "spec": fields}


def storage_class(**fields: Any) -> Object:
    body = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata()}
    return {**body, "provisioner": "example.com/disk", **fields}


def named(kind: str, name: Any, api_version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


def role(kind: str, **fields: Any) -> Object:
    return named(kind, "bad", "rbac.authorization.k8s.io/v1", **fields)


POD, NODE, NS, SVC, CM, SECRET = "v1/pods", "v1/nodes", "v1/namespaces", "v1/services", "v1/configmaps", "v1/secrets"
PVC, PV, SC = "v1/persistentvolumeclaims", "v1/persistentvolumes", "storage.k8s.io/v1/storageclasses"
PC, PDB, DEPLOY = (
    "scheduling.k8s.io/v1/priorityclasses",
    "policy/v1/poddisruptionbudgets",
    "apps/v1/deployments",
)
STS, DS, RS, JOB = "apps/v1/statefulsets", "apps/v1/daemonsets", "apps/v1/replicasets", "batch/v1/jobs"
RBAC = "rbac.authorization.k8s.io/v1"
LEASE = "coordination.k8s.io/v1/leases"
