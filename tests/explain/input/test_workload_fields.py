"""Fields of Deployments, Jobs and others outside of the pod template: misspelt ones are told."""

from typing import Any, get_type_hints

import pytest
from msgspec import Struct

from kscheduler.api.typed.api_types import ApiType, type_of_kind
from kscheduler.scenario.new_pods import misspelt_in_new
from kscheduler.scenario.object_files import Document
from kscheduler.scenario.workload_fields import FIELDS

Tree = dict[str, Any]


@pytest.mark.parametrize(("kind", "wrong", "right"), [
    ("Deployment", "spec.replica", "replicas"),
    ("Deployment", "spec.strategy.rollingUpdate.maxUnavailble", "maxUnavailable"),
    ("Deployment", "spec.selector.matchLabel", "matchLabels"),
    ("StatefulSet", "spec.serviceNam", "serviceName"),
    ("ReplicaSet", "spec.minReadySecond", "minReadySeconds"),
    ("DaemonSet", "spec.updateStrategi", "updateStrategy"),
    ("Job", "spec.parallelsm", "parallelism"),
    ("CronJob", "spec.jobTemplate.spec.paralelism", "parallelism"),
    ("CronJob", "spec.timezone", "timeZone"),
    ("ReplicationController", "spec.replcas", "replicas"),
])  # fmt: skip
def test_a_misspelt_field_outside_of_the_pod_template_is_noted(kind: str, wrong: str, right: str) -> None:
    path = wrong.split(".")
    tree: Tree = {"kind": kind}
    part = tree
    for name in path[:-1]:
        part = part.setdefault(name, {})
    part[path[-1]] = 20
    reported = list(misspelt_in_new(Document(tree, "web.yaml: document 1")))
    assert reported == [f"web.yaml: document 1 ({kind}): {wrong} is not a field: do you mean {right}?"]


def test_the_fields_of_workloads_are_those_of_the_api() -> None:
    """By Kubernetes' own table of types: a field that is missing here would be told as misspelt."""
    groups = {"CronJob": "batch", "Job": "batch", "ReplicationController": "", "PodTemplate": ""}
    for kind in FIELDS.keys() - {"Pod"}:
        known = type_of_kind(groups.get(kind, "apps"), "v1", kind)
        assert known is not None
        same_fields(FIELDS[kind], known, kind)


def same_fields(ours: type[Struct], theirs: ApiType, path: str) -> None:
    names = {name: field.type for name, field in theirs.fields.items() if name not in ("apiVersion", "kind")}
    assert set(ours.__struct_encode_fields__) == set(names), path
    hints = get_type_hints(ours)
    for name, encoded in zip(ours.__struct_fields__, ours.__struct_encode_fields__, strict=True):
        hint = hints[name]
        if isinstance(hint, type) and issubclass(hint, Struct) and hint.__module__ == FIELDS["Deployment"].__module__:
            same_fields(hint, names[encoded], f"{path}.{encoded}")
