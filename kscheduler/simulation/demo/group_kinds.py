"""PodGroups of scheduler-plugins and of Volcano, as their own CustomResourceDefinitions define them.

The cluster brings both, so that gangs of these projects can be tried out without their charts (docs/pod-groups.md).
They are kinds like any that a user defines: stored as they are, without schemas, and nothing acts on them but a
scheduler whose `podGroupAPIs` names the project. Whoever applies the definitions of a project replaces them.
"""

from typing import Final

from kscheduler.simulation.kinds.api_errors import Object

_KINDS: Final = (("scheduling.x-k8s.io", "v1alpha1", ("pg", "pgs")), ("scheduling.volcano.sh", "v1beta1", ("vcpg",)))
"""Group, version and kubectl's short names."""
_APPROVED: Final = {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins/pull/50"}
"""Groups below k8s.io are protected: a real API server establishes their definitions only with this."""


def group_definitions() -> list[Object]:
    """Both CustomResourceDefinitions."""
    return [_definition(group, version, short_names) for group, version, short_names in _KINDS]


def _definition(group: str, version: str, short_names: tuple[str, ...]) -> Object:
    names: Object = {
        "kind": "PodGroup",
        "listKind": "PodGroupList",
        "plural": "podgroups",
        "singular": "podgroup",
        "shortNames": list(short_names),
    }
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    annotations = dict(_APPROVED) if group.endswith(".k8s.io") else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"podgroups.{group}", "annotations": annotations},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [served]},
    }
