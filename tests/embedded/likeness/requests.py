"""Every verb on every path, every media type of a body and of an answer, and bodies that belong elsewhere."""

from collections.abc import Iterator
from typing import Any

from kscheduler.api.machinery.resources import OTHER_VERSIONS, RESOURCES, ServedResource
from tests.embedded.likeness.exchanges import JSON, NAMESPACE, Object, Request, Row

POD_PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOY_PATH = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
SPEC = {"schedulerName": "own", "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "a:1"}]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}, "spec": SPEC}
BEFORE = (Request("POST", POD_PATH, POD),)
AFTER = (Request("DELETE", POD_PATH + "/q", {"gracePeriodSeconds": 0}),)
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def prefix(resource: ServedResource) -> str:
    group_version = f"apis/{resource.group_version}" if resource.group else f"api/{resource.version}"
    within = f"/namespaces/{NAMESPACE}" if resource.namespaced else ""
    return f"/{group_version}{within}/{resource.plural}"


def verbs() -> Iterator[Row]:
    """Without a body and as a dry run: what is compared is whether there is such a path and such a verb."""
    for resource in (*RESOURCES, *OTHER_VERSIONS):
        collection = prefix(resource)
        paths = [collection, f"{collection}/absent"]
        paths += [f"{collection}/absent/{name}" for name in sorted(resource.subresources)]
        paths += [f"{collection}/absent/nothing"]
        for path in paths:
            for method in METHODS:
                yield Row(f"{method} {path}", Request(method, f"{path}?dryRun=All"))


OTHER_PATHS = (
    "/api/v1/pods",
    "/apis/apps/v1/deployments",
    "/api/v1/nothing",
    "/apis/nothing.example/v1/nothing",
    "/apis/apps/v2/deployments",
    f"/api/v1/namespaces/{NAMESPACE}/nodes",
    f"/api/v1/watch/namespaces/{NAMESPACE}/pods/absent/status",
    "/api/v1/watch/nothing",
    "/apis/nothing.example",
    "/nothing",
)
DOCUMENTS = ("/api", "/apis", "/apis/apps", "/apis/apps/v1", "/version", "/healthz", "/readyz", "/livez", "/openapi/v3")
PATHS = [
    # A real server says nothing in JSON about a group that it does not know.
    *(
        Row(f"{method} {path}", Request(method, f"{path}?dryRun=All"), shows_text="nothing" not in path.split("/v1")[0])
        for path in OTHER_PATHS
        for method in METHODS
    ),
    *(Row(f"GET {path}", Request("GET", path)) for path in DOCUMENTS),
]

BODY_TYPES = (
    "application/json",
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
    "text/plain",
    "text/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "application/octet-stream",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "application/*",
    "*/*",
    "json",
)
BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "q"}, "target": {"kind": "Node", "name": "n"}}
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "q"}}
LABELS = {"metadata": {"labels": {"a": "b"}}}
DRY = "?dryRun=All&fieldManager=t"
WRITES: tuple[tuple[str, str, str, Any], ...] = (
    ("create", "POST", POD_PATH + DRY, {**POD, "metadata": {"name": "new"}}),
    ("replace", "PUT", POD_PATH + "/q" + DRY, {**POD, "metadata": {"name": "q", "labels": {"a": "b"}}}),
    ("patch", "PATCH", POD_PATH + "/q" + DRY, {**LABELS, "apiVersion": "v1", "kind": "Pod"}),
    ("status", "PATCH", POD_PATH + "/q/status" + DRY, {**LABELS, "apiVersion": "v1", "kind": "Pod"}),
    ("bind", "POST", POD_PATH + "/q/binding?dryRun=All", BINDING),
    ("evict", "POST", POD_PATH + "/q/eviction?dryRun=All", EVICTION),
    ("bind by collection", "POST", f"/api/v1/namespaces/{NAMESPACE}/bindings?dryRun=All", BINDING),
    ("delete", "DELETE", POD_PATH + "/q?dryRun=All", {"dryRun": ["All"]}),
    ("scale", "PUT", DEPLOY_PATH + "/absent/scale?dryRun=All", {"apiVersion": "autoscaling/v1", "kind": "Scale"}),
)


def media_types() -> Iterator[Row]:
    for what, method, path, body in WRITES:
        for kind in BODY_TYPES:
            # Of bytes that are no protobuf the real server says which ones.
            shows_text = "protobuf" not in kind
            yield Row(f"{what} as {kind}", Request(method, path, body, kind), BEFORE, AFTER, shows_text=shows_text)


ANSWER_TYPES = (
    "application/json",
    "*/*",
    "application/*",
    "",
    "text/html,application/xhtml+xml,*/*;q=0.8",
    "text/plain",
    "application/xml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=Table;v=v2;g=meta.k8s.io",
    "application/json;as=Nothing;v=v1;g=meta.k8s.io",
    "application/json;as=Nothing;v=v1;g=meta.k8s.io,application/json",
)


def answers() -> Iterator[Row]:
    for what, method, path in (
        ("get", "GET", POD_PATH + "/q"),
        ("list", "GET", POD_PATH),
        ("get nothing", "GET", POD_PATH + "/absent"),
    ):
        for kind in ANSWER_TYPES:
            yield Row(f"{what} in {kind}", Request(method, path, None, JSON, kind), BEFORE, AFTER)


def bodies() -> Iterator[Row]:
    """Bodies for the Binding and the Eviction of pod q that are of another kind, about another object, or none."""
    given: list[tuple[str, Any]] = [
        ("no name", {"metadata": {}}),
        ("another name", {"metadata": {"name": "z"}}),
        ("another namespace", {"metadata": {"name": "q", "namespace": "kube-system"}}),
        ("its namespace", {"metadata": {"name": "q", "namespace": NAMESPACE}}),
        ("another kind", {"apiVersion": "v1", "kind": "Pod"}),
        ("another group", {"apiVersion": "apps/v1", "kind": "Deployment"}),
        ("another version", {"apiVersion": "v7"}),
        ("a kind that does not exist", {"kind": "Nothing"}),
        ("no kind", {"apiVersion": "", "kind": ""}),
        ("metadata of another type", {"metadata": []}),
        ("a list", None),
        ("an empty body", b""),
        ("no JSON", b"{"),
        ("another UID", {"metadata": {"name": "q", "uid": "other"}}),
    ]
    for what, path, body in (("Binding", "binding", BINDING), ("Eviction", "eviction", EVICTION)):
        for name, change in given:
            sent = change if isinstance(change, bytes) else [] if change is None else {**body, **change}
            request = Request("POST", f"{POD_PATH}/q/{path}?dryRun=All", sent)
            yield Row(f"{what}: {name}", request, BEFORE, AFTER, shows_text=name != "no JSON")
    for name, change in given:
        sent = change if isinstance(change, bytes) else [] if change is None else {**POD, **change}
        request = Request("PUT", f"{POD_PATH}/q?dryRun=All", sent)
        yield Row(f"Pod: {name}", request, BEFORE, AFTER, shows_text=name != "no JSON")
    for name, target in (
        ("to no node", {}),
        ("to a pod", {"kind": "Pod", "name": "n"}),
        ("to no kind", {"name": "n"}),
        ("to a text", "n"),
    ):
        yield Row(
            f"Binding: {name}",
            Request("POST", f"{POD_PATH}/q/binding?dryRun=All", {**BINDING, "target": target}),
            BEFORE,
            AFTER,
        )


def pod(name: str, **spec: Any) -> Row:
    body = {**POD, "metadata": {"name": "new"}, "spec": {**SPEC, **spec}}
    return Row(name, Request("POST", POD_PATH + "?dryRun=All", body))


def pages(limit: Any, **others: Any) -> Row:
    amounts = {"hugepages-2Mi": limit, "memory": "1Gi", **others}
    return pod(
        f"huge pages: {limit} {others}", containers=[{"name": "c", "image": "a:1", "resources": {"limits": amounts}}]
    )


def near(name: str, **term: Any) -> Row:
    required = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, **term}]
    return pod(name, affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}})


def claim(*modes: str) -> Row:
    spec = {"accessModes": list(modes), "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "new"}, "spec": spec}
    path = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims?dryRun=All"
    return Row(f"a claim of {modes}", Request("POST", path, body))


def volume(*modes: str) -> Row:
    spec = {"accessModes": list(modes), "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/a"}}
    return Row(
        f"a volume of {modes}",
        Request("POST", "/api/v1/persistentvolumes?dryRun=All", {"metadata": {"name": "new"}, "spec": spec}),
    )


def template(operator: str) -> Object:
    tolerations = [{"key": "a", "operator": operator, "value": "5"}]
    labels = {"app": "a"}
    held = {"metadata": {"labels": labels}, "spec": {**SPEC, "tolerations": tolerations}}
    return {"metadata": {"name": "new"}, "spec": {"selector": {"matchLabels": labels}, "template": held}}


COMPARES = {"key": "a", "operator": "Gt", "value": "5"}
ADDS = [{"op": "add", "path": "/spec/tolerations/-", "value": COMPARES}]
SUSPENDED = {
    "metadata": {"name": "o"},
    "spec": {
        "schedule": "0 0 1 1 *",
        "jobTemplate": {"spec": {"template": {"spec": {**SPEC, "restartPolicy": "Never"}}}},
    },
}
CRON_PATH = f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs"
CHANGES = (
    Row(
        "a toleration that compares is added",
        Request("PATCH", POD_PATH + "/q" + DRY, ADDS, "application/json-patch+json"),
        BEFORE,
        AFTER,
    ),
    Row(
        "a template begins to compare",
        Request(
            "PATCH",
            CRON_PATH + "/o" + DRY,
            {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"tolerations": [COMPARES]}}}}}},
            "application/merge-patch+json",
        ),
        (Request("POST", CRON_PATH, SUSPENDED),),
        (Request("DELETE", CRON_PATH + "/o"),),
    ),
)
RULES = (
    pages("4Mi"),
    pages("3Mi"),
    pages("1500m"),
    pages("2Mi", **{"hugepages-1Gi": "1Gi"}),
    pages("2Mi", **{"hugepages-3": "5"}),
    pages("2Mi", **{"hugepages-many": "5"}),
    pod("a toleration that compares", tolerations=[{"key": "a", "operator": "Gt", "value": "5"}]),
    pod("a toleration that compares with a word", tolerations=[{"key": "a", "operator": "Lt", "value": "many"}]),
    Row("a template that compares", Request("POST", DEPLOY_PATH + "?dryRun=All", template("Gt"))),
    near("a key to match and not to match", matchLabelKeys=["x"], mismatchLabelKeys=["x"]),
    near("a key to match and in the selector", matchLabelKeys=["a"]),
    near("a key not to match and in the selector", mismatchLabelKeys=["a"]),
    claim("ReadWriteOncePod"),
    claim("ReadWriteOncePod", "ReadWriteOnce"),
    volume("ReadWriteOncePod", "ReadOnlyMany"),
    volume("ReadWriteOnce", "ReadOnlyMany"),
)

ROWS = (*verbs(), *PATHS, *media_types(), *answers(), *bodies(), *RULES, *CHANGES)
