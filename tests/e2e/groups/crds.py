"""PodGroups of scheduler-plugins and of Volcano as custom resources, with the fields that schedulers read.

And the rights that a scheduler needs for all groups.
"""

from typing import Final

from tests.controlplane.process import wait_until
from tests.controlplane.rest import Api, Object

SCHEDULER_PLUGINS: Final = ("scheduling.x-k8s.io", "v1alpha1")
VOLCANO: Final = ("scheduling.volcano.sh", "v1beta1")
# What the chart grants for `podGroups` (a test compares them); the manifests of its default values have none of it.
RULES: Final[tuple[Object, ...]] = (
    *(
        {"apiGroups": [group], "resources": ["podgroups"], "verbs": ["list", "watch"]}
        for group in ("scheduling.k8s.io", SCHEDULER_PLUGINS[0], VOLCANO[0])
    ),
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups/status"], "verbs": ["patch"]},
)
_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SECONDS: Final = 60.0


def definition(group: str, version: str) -> Object:
    """The CustomResourceDefinition: all other fields of the two projects are kept, and not looked at."""
    spec = {
        "type": "object",
        "properties": {"minMember": {"type": "integer", "format": "int32"}},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"}
    # *.k8s.io are protected: their definitions say who has approved them
    approved = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}", "annotations": approved},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }


def install(api: Api) -> None:
    """Both definitions; returns when their kinds are served."""
    for group, version in (SCHEDULER_PLUGINS, VOLCANO):
        api.create(_PATH, definition(group, version))
    for group, version in (SCHEDULER_PLUGINS, VOLCANO):
        path = f"/apis/{group}/{version}/podgroups"
        wait_until(f"{path} is served", lambda path=path: api.answers(path), _SECONDS)  # type: ignore[misc]
