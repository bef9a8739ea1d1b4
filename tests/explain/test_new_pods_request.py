"""Manifests as anybody may send them to `POST /explain`: each is answered or refused by name, whatever its shape."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from kscheduler.config.loader import default_configuration
from kscheduler.explain.queries.new_pods_request import queries_of_request, read_new_pods_request
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving

_CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
_CLAIM = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
_STATEFUL_SET = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "w"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "serviceName": "x",
        "replicas": 2,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [_CONTAINER], "resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, **_CLAIM}],
    },
}
_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"priorityClassName": "u", "containers": [_CONTAINER]},
}
_CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "u"}, "value": 3}
_NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "4"}}}
_OBJECTS: list[Any] = [_STATEFUL_SET, _POD, _CLASS, _NODE]
_SHAPES: list[Any] = [None, 3, "x", [], {}, [None], {"a": 3}]

Path = tuple[str | int, ...]


def paths(tree: Any, path: Path = ()) -> Iterator[Path]:
    """To each part of a tree."""
    if path:
        yield path
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for name, part in parts:
        yield from paths(part, (*path, name))


def with_part(tree: Any, path: Path, part: Any) -> Any:
    """A copy with another part at the path."""
    changed = deepcopy(tree)
    place = changed
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = deepcopy(part)
    return changed


def queried(**request: Any) -> None:
    served = Serving(default_configuration("default-scheduler"), "a test")
    with suppress(ScenarioError):  # which is a refusal
        read = read_new_pods_request(msgspec.json.encode(request))
        queries_of_request(read, ClusterObjects(), served, {})


@pytest.mark.parametrize("shape", _SHAPES, ids=str)
def test_any_part_of_a_manifest_or_of_a_dry_run_may_have_any_shape(shape: Any) -> None:
    for path in paths(_OBJECTS):
        queried(objects=with_part(_OBJECTS, path, shape))
    for path in paths(_POD):
        queried(objects=[_POD], admitted=[with_part(_POD, path, shape)])
