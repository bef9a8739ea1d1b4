"""Patches in all formats, from their pure functions up to ownership of fields."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kscheduler.api.machinery.api_errors import ApiError
from kscheduler.api.machinery.kind_table import ResourcePath, parse_path
from kscheduler.api.machinery.resources import NODES, PODS
from kscheduler.api.patches import server_side_apply, strategic_merge
from kscheduler.api.patches.field_sets import from_fields_v1, to_fields_v1
from kscheduler.api.patches.merge_schema import fields_of
from kscheduler.embedded.apiserver.bodies import formats as bodies
from kscheduler.embedded.apiserver.bodies import patching
from kscheduler.embedded.apiserver.bodies.patching import Patch, patch_object, read_patch
from kscheduler.embedded.objects.registry import ObjectRegistry, WriteOptions
from tests.embedded.cluster_client import node, pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def strategic(kind: str, current: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    return strategic_merge.apply(current, patch, fields_of(kind))


@pytest.mark.parametrize(
    ("kind", "current", "patch", "expected"),
    [
        pytest.param(
            "Pod",
            {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}},
            {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}]}},
            {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2"}, {"name": "c"}]}},
            id="containers merge by name",
        ),
        pytest.param(
            "Pod",
            {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}},
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
            {"spec": {"containers": [{"name": "b"}]}},
            id="an element is deleted by its key",
        ),
        pytest.param(
            "Pod",
            {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}},
            {"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}]}},
            {"spec": {"containers": [{"name": "c"}]}},
            id="a list is replaced on demand",
        ),
        pytest.param(
            "Pod",
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="tolerations are atomic",
        ),
        pytest.param(
            "Node",
            {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x"}]}},
            {"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "True"}]}},
            {
                "status": {
                    "conditions": [
                        {"type": "Ready", "status": "False", "reason": "x"},
                        {"type": "Disk", "status": "True"},
                    ]
                }
            },
            id="conditions merge by type",
        ),
        pytest.param(
            "Pod",
            {"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1"}}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"], "labels": {"x": None}}},
            {"metadata": {"finalizers": ["c", "b"], "labels": {}}},
            id="finalizers are a set and null removes",
        ),
        pytest.param(
            "Pod",
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]}},
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
            id="retainKeys drops the other member of a union",
        ),
        pytest.param(
            "Pod",
            {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}},
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a"}]}},
            {"spec": {"containers": [{"name": "b"}, {"name": "a"}]}},
            id="setElementOrder orders",
        ),
        pytest.param(
            "Pod",
            {"spec": {"nodeSelector": {"a": "1"}}},
            {"spec": {"nodeSelector": {"$patch": "replace", "b": "2"}}},
            {"spec": {"nodeSelector": {"b": "2"}}},
            id="a map is replaced on demand",
        ),
    ],
)
def test_strategic_merge(kind: str, current: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert strategic(kind, current, patch) == expected


def test_a_strategic_patch_needs_the_merge_key() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic("Pod", {"spec": {"containers": []}}, {"spec": {"containers": [{"image": "x"}]}})


def test_merge_patch_follows_rfc_7386() -> None:
    assert patching.merge({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": None}, "d": [2]}) == {"a": {"c": 2}, "d": [2]}


def test_a_failing_json_patch_test_is_unprocessable_and_changes_nothing() -> None:
    current = {"metadata": {"name": "x"}}
    operations = [
        {"op": "add", "path": "/metadata/a", "value": 1},
        {"op": "test", "path": "/metadata/name", "value": "y"},
    ]
    with pytest.raises(ApiError) as caught:
        patching.merged(current, Patch(bodies.JSON_PATCH, operations), {})
    assert (caught.value.code, current) == (422, {"metadata": {"name": "x"}})


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", ""])
def test_other_patch_types_are_unsupported(content_type: str) -> None:
    with pytest.raises(ApiError) as caught:
        read_patch(b"{}", content_type)
    assert caught.value.code == 415


def path_of(text: str) -> ResourcePath:
    path = parse_path(text)
    assert path is not None
    return path


POD_PATH = path_of("/api/v1/namespaces/default/pods/p")
NODE_PATH = path_of("/api/v1/nodes/n1")


def test_a_patch_with_an_old_version_conflicts(registry: ObjectRegistry) -> None:
    registry.create(NODES, "", node())
    patch = Patch(bodies.MERGE_PATCH, {"metadata": {"resourceVersion": "1"}, "spec": {"unschedulable": True}})
    with pytest.raises(ApiError) as caught:
        patch_object(registry, NODE_PATH, patch, WriteOptions(), {})
    assert caught.value.code == 409


def test_a_patch_for_another_uid_conflicts(registry: ObjectRegistry) -> None:
    registry.create(PODS, "default", pod())
    patch = Patch(bodies.STRATEGIC_PATCH, {"metadata": {"uid": "other"}, "status": {"nominatedNodeName": "n1"}})
    with pytest.raises(ApiError, match="Precondition failed: UID in precondition: other") as caught:
        patch_object(registry, path_of("/api/v1/namespaces/default/pods/p/status"), patch, WriteOptions(), {})
    assert caught.value.code == 409


def test_fields_survive_their_json_form() -> None:
    paths = frozenset(
        {
            ("f:spec", "f:containers", 'k:{"name":"c"}'),
            ("f:spec", "f:containers", 'k:{"name":"c"}', "f:image"),
            ("f:metadata", "f:finalizers", 'v:"x"'),
        }
    )
    trie = to_fields_v1(paths)
    assert trie["f:spec"]["f:containers"]['k:{"name":"c"}'] == {".": {}, "f:image": {}}
    assert from_fields_v1(trie) == paths


def applied(registry: ObjectRegistry, body: dict[str, Any], manager: str, *, force: bool = False) -> dict[str, Any]:
    path = POD_PATH if "containers" in body.get("spec", {}) or body.get("kind") == "Pod" else NODE_PATH
    options = WriteOptions(field_manager=manager, force=force)
    return patch_object(registry, path, Patch(bodies.APPLY_PATCH, body), options, {}).record.value


def labels(**values: str) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "labels": values}}


def owners(value: dict[str, Any]) -> dict[str, str]:
    return {entry["manager"]: entry["operation"] for entry in value["metadata"].get("managedFields", ())}


def test_apply_creates_what_is_not_there(registry: ObjectRegistry) -> None:
    value = applied(registry, labels(a="1"), "one")
    assert (value["metadata"]["labels"], owners(value)) == ({"a": "1"}, {"one": "Apply"})


def test_apply_removes_what_its_manager_no_longer_wants_and_nothing_else(registry: ObjectRegistry) -> None:
    applied(registry, labels(a="1", b="1"), "one")
    applied(registry, labels(c="1"), "two")
    assert applied(registry, labels(a="1"), "one")["metadata"]["labels"] == {"a": "1", "c": "1"}


def test_a_field_two_managers_want_stays_until_the_last_drops_it(registry: ObjectRegistry) -> None:
    for manager in ("one", "two"):
        applied(registry, labels(a="1"), manager)
    assert applied(registry, labels(), "one")["metadata"]["labels"] == {"a": "1"}
    assert "labels" not in applied(registry, {"metadata": {"name": "n1"}}, "two")["metadata"]


def test_a_change_of_a_field_of_another_manager_conflicts_until_forced(registry: ObjectRegistry) -> None:
    applied(registry, labels(a="1"), "one")
    with pytest.raises(ApiError) as caught:
        applied(registry, labels(a="2"), "two")
    assert caught.value.code == 409
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "one": .metadata.labels.a'
    assert caught.value.details["causes"][0]["reason"] == "FieldManagerConflict"
    value = applied(registry, labels(a="2"), "two", force=True)
    assert (value["metadata"]["labels"], owners(value)) == ({"a": "2"}, {"two": "Apply"})


def test_fields_from_before_the_first_apply_conflict_too(registry: ObjectRegistry) -> None:
    registry.create(NODES, "", {**node(), **labels(a="1")})
    with pytest.raises(ApiError, match=r'conflict with "before-first-apply" using v1: \.metadata\.labels\.a'):
        applied(registry, labels(a="2"), "one")


def test_an_update_takes_the_fields_that_it_changes(registry: ObjectRegistry) -> None:
    value = applied(registry, labels(a="1", b="1"), "one")
    edited = {**value, "metadata": {**value["metadata"], "labels": {"a": "9", "b": "1"}}}
    value = registry.update(NODES, "", "n1", edited, WriteOptions(field_manager="editor")).value
    assert owners(value) == {"one": "Apply", "editor": "Update"}
    with pytest.raises(ApiError, match=r'conflict with "editor" using v1: \.metadata\.labels\.a'):
        applied(registry, labels(a="1", b="1"), "one")


def test_the_same_apply_again_writes_nothing(registry: ObjectRegistry) -> None:
    applied(registry, labels(a="1"), "one")
    version = registry.store.version
    applied(registry, labels(a="1"), "one")
    assert registry.store.version == version


def test_lists_with_keys_merge_under_apply() -> None:
    kind = {"kind": "Pod", "apiVersion": "v1"}
    current = {**kind, "metadata": {"name": "p", "uid": "u", "resourceVersion": "1"}}
    current["spec"] = {"containers": [{"name": "a", "image": "1", "tty": True}, {"name": "b", "image": "1"}]}
    wanted = {**kind, "metadata": {"name": "p"}, "spec": {"containers": [{"name": "b", "image": "2"}]}}
    value = server_side_apply.apply(current, wanted, "one", NOW, force=True)
    assert value["spec"]["containers"] == [{"name": "a", "image": "1", "tty": True}, {"name": "b", "image": "2"}]


def test_apply_needs_a_field_manager(registry: ObjectRegistry) -> None:
    registry.create(PODS, "default", pod())
    with pytest.raises(ApiError, match="fieldManager: Required value"):
        applied(registry, {"kind": "Pod", "metadata": {"name": "p"}}, "")
