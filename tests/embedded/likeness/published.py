"""Manifests as published projects have them (`published.yaml`), and pods beside a LimitRange."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from kscheduler.api.machinery.resources import BY_GROUP_KIND
from tests.embedded.likeness.exchanges import NAMESPACE, Object, Request, Row
from tests.embedded.likeness.requests import prefix

MANIFESTS: Final = Path(__file__).with_suffix(".yaml")
# Kinds, or names, of which not every default is filled in here: nothing that schedules reads them.
VERDICT_ALONE: Final = frozenset(
    {
        "EndpointSlice",
        "HorizontalPodAutoscaler",
        "MutatingWebhookConfiguration",
        "Node",
        "ValidatingWebhookConfiguration",
        "aggregated",
        "claim-volume-source",
    }
)


# Names of those that the versions refuse with different texts.
OTHER_WORDS: Final = frozenset({"no-verbs", "windows-with-much"})


def manifests() -> Iterator[Row]:
    for tree in yaml.safe_load_all(MANIFESTS.read_text()):
        resource = BY_GROUP_KIND[tree["apiVersion"], tree["kind"]]
        name = tree["metadata"]["name"]
        is_whole = not resource.is_plain and not VERDICT_ALONE & {resource.kind, name}
        path = f"{prefix(resource)}?dryRun=All"
        # A kind may be there in two versions.
        yield Row(
            f"{tree['apiVersion']} {resource.kind} {name}",
            Request("POST", path, tree),
            shows_object=is_whole,
            shows_text=name not in OTHER_WORDS,
        )


LIMITS: Final = [
    {
        "type": "Container",
        "default": {"cpu": "500m", "memory": "512Mi"},
        "defaultRequest": {"cpu": "100m"},
        "max": {"cpu": "2"},
        "min": {"cpu": "10m"},
        "maxLimitRequestRatio": {"cpu": "10"},
    },
    {"type": "Pod", "max": {"cpu": "4", "memory": "8Gi"}},
    {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "100Gi"}},
]
CORE: Final = f"/api/v1/namespaces/{NAMESPACE}"
LIMIT: Final = Request("POST", f"{CORE}/limitranges", {"metadata": {"name": "limits"}, "spec": {"limits": LIMITS}})
SEEN: Final = Request("GET", f"{CORE}/limitranges")
UNLIMIT: Final = Request("DELETE", f"{CORE}/limitranges/limits")


def limited(what: str, collection: str, **spec: Any) -> Row:
    request = Request("POST", f"{CORE}/{collection}?dryRun=All", {"metadata": {"name": "o"}, "spec": spec})
    return Row(f"beside a LimitRange: {what}", request, shows_object=True)


def pod(what: str, *resources: Object, **spec: Any) -> Row:
    containers = [{"name": f"c{place}", "image": "a:1", "resources": own} for place, own in enumerate(resources)]
    return limited(what, "pods", automountServiceAccountToken=False, containers=containers, **spec)


def claim(what: str, storage: str) -> Row:
    resources = {"requests": {"storage": storage}}
    return limited(what, "persistentvolumeclaims", accessModes=["ReadWriteOnce"], resources=resources)


# A real server's admission hears of a new LimitRange by a watch, some milliseconds later.
LIMITED: Final = (
    Row("a LimitRange", Request("GET", f"{CORE}/limitranges/limits"), (LIMIT, *[SEEN] * 10), shows_object=True),
    pod("nothing said", {}),
    pod("an init container", {}, initContainers=[{"name": "i", "image": "a:1"}]),
    pod("a limit", {"limits": {"cpu": "1"}}),
    pod("a request above the limit that is filled in", {"requests": {"memory": "1Gi"}}),
    pod("too much", {"limits": {"cpu": "3"}}),
    pod("too little, and too far apart", {"requests": {"cpu": "1m"}}),
    pod("too far apart", {"requests": {"cpu": "20m"}, "limits": {"cpu": "1"}}),
    pod("too much together", *[{"limits": {"cpu": "2"}}] * 3),
    pod("too much in two ways", {"limits": {"cpu": "3", "memory": "9Gi"}}),
    pod("a resource that it does not limit", {"limits": {"nvidia.com/gpu": "1"}}),
    claim("a claim", "1Gi"),
    claim("a claim that is too small", "500Mi"),
    claim("a claim that is too large", "200Gi"),
    Row("no LimitRange any more", UNLIMIT),
)

ROWS: Final = (*manifests(), *LIMITED)
