"""What a request asks for: the JSON object of `POST /simulate`, with the names of the command's flags.

{"objects": [{"kind": "Deployment", ...}], "replicas": 3, "addNodes": [{"count": 3, "like": "node-7"}],
"drain": ["node-2"], "labels": [{"node": "node-1", "labels": {"disk": "ssd", "old": null}}], "capacity": true}
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kscheduler.api.core import Taint
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.config.loader import ArgsKind, LoadPlugins, from_tree
from kscheduler.config.reading.decode import Walk
from kscheduler.config.types import KubeSchedulerConfiguration
from kscheduler.plugins.in_tree import registry
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import nearest_node
from kscheduler.scenario.object_files import Document
from kscheduler.scenario.request_bodies import decoded_request, documents_of
from kscheduler.scenario.serving import Serving
from kscheduler.simulate.requested_changes import MAX_NEW_PODS, RequestedChanges, new_objects, refuse_too_many
from kscheduler.simulate.requested_nodes import EFFECTS, MoreNodes, NodeEdit, refuse_too_many_nodes
from kscheduler.simulate.simulation_result import API_VERSION

KIND: Final = "SimulationRequest"

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]


class NodesToAdd(msgspec.Struct, forbid_unknown_fields=True):
    """So many nodes like another."""

    count: Count
    like: Name


class LabelEdit(msgspec.Struct, forbid_unknown_fields=True):
    """Labels that a node gets or loses."""

    node: Name
    labels: dict[Name, str | None]


class TaintEdit(msgspec.Struct, forbid_unknown_fields=True):
    """A taint that a node gets, or loses."""

    node: Name
    key: Name
    effect: Annotated[str, Meta(extra_json_schema={"enum": list(EFFECTS)})]
    value: str = ""
    remove: bool = False


class SimulationRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Everything may be left out; an unknown field is an error."""

    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})] = API_VERSION
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})] = KIND
    objects: Annotated[
        list[dict[str, Any]],
        Meta(description="Manifests of pods, of workloads that make pods, and of what comes with them."),
    ] = []
    namespace: Annotated[Name, Meta(description="Of objects that name none.")] = "default"
    replicas: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_NEW_PODS)] | None,
        Meta(description="This many pods of each manifest, whatever it says."),
    ] = None
    add_nodes: list[NodesToAdd] = []
    remove_nodes: list[Name] = []
    cordon: list[Name] = []
    drain: list[Name] = []
    labels: Annotated[list[LabelEdit], Meta(description="null removes the label.")] = []
    taints: list[TaintEdit] = []
    config: Annotated[
        dict[str, Any] | None,
        Meta(description="A KubeSchedulerConfiguration instead of the one in force; it loads no plugins."),
    ] = None
    capacity: Annotated[
        bool, Meta(description="Count how many more pods like the first new one would fit in the end.")
    ] = False


_DECODER = msgspec.json.Decoder(SimulationRequest)


def read_request(body: bytes) -> SimulationRequest:
    """The request. Raises `ScenarioError` that begins with the field."""
    request: SimulationRequest = decoded_request(body, _DECODER, SimulationRequest)
    if request.api_version != API_VERSION or request.kind != KIND:
        raise ScenarioError(f"apiVersion, kind: expected {API_VERSION}, {KIND}")
    if request.replicas is not None and not request.objects:
        raise ScenarioError("replicas requires objects, and there are none")
    refuse_too_many_nodes(map(_more_nodes, request.add_nodes), "addNodes")
    for index, taint in enumerate(request.taints):
        if taint.effect not in EFFECTS:
            raise ScenarioError(f"taints[{index}].effect: {taint.effect!r} is none of {', '.join(EFFECTS)}")
    return request


def requested_changes_of(request: SimulationRequest, node_names: Iterable[str]) -> RequestedChanges:
    """What is asked of a cluster with these nodes. Raises `ScenarioError` that begins with the field."""
    known = frozenset(node_names)
    for field, name in _named_nodes(request):
        if name not in known:
            near = nearest_node(name, known)
            raise ScenarioError(f"{field}: there is no node {name}{near or f' among the {len(known)} nodes'}")
    documents = list(_documents(request))
    return RequestedChanges(
        new_objects=(new_objects("objects", documents),) if documents else (),
        replicas=request.replicas,
        namespace=request.namespace,
        more_nodes=tuple(map(_more_nodes, request.add_nodes)),
        gone_nodes=tuple(request.remove_nodes),
        cordoned=tuple(request.cordon),
        drained=tuple(request.drain),
        edits=(
            *(NodeEdit(each.node, labels=each.labels) for each in request.labels),
            *(NodeEdit(each.node, taint=_taint(each), removes_taint=each.remove) for each in request.taints),
        ),
        capacity=request.capacity,
    )


def serving_of_request(request: SimulationRequest, served: Serving) -> Serving:
    """The configuration of the request, or the one in force. Plugins are those that the service has loaded.

    Raises `ScenarioError` that begins with the field.
    """
    if request.config is None:
        return served
    try:
        config = from_tree(request.config, "", served.config.gates, _plugins_of(served))
    except ConfigError as error:
        problems = "; ".join(f"config.{problem}" for problem in error.problems)
        raise ScenarioError(problems) from None
    return replace(served, config=config, source="config of the request")


def _plugins_of(served: Serving) -> LoadPlugins:
    """The right to ask is no right to run code: nothing is loaded."""

    def load(configuration: KubeSchedulerConfiguration, walk: Walk, where: str) -> ArgsKind:
        del where
        if configuration.plugin_sources:
            text = "a request loads no plugins; profiles may name those that the service has loaded"
            walk.problems.append(Problem("pluginSources", text))
        return (served.registry or registry()).args_kind

    return load


def _documents(request: SimulationRequest) -> Iterator[Document]:
    for document in documents_of(request.objects):
        refuse_too_many(document)
        yield document


def _named_nodes(request: SimulationRequest) -> Iterator[tuple[str, str]]:
    """Each field that names a node, with the name."""
    yield from ((f"addNodes[{index}].like", each.like) for index, each in enumerate(request.add_nodes))
    lists = {"removeNodes": request.remove_nodes, "cordon": request.cordon, "drain": request.drain}
    for field, names in lists.items():
        yield from ((f"{field}[{index}]", name) for index, name in enumerate(names))
    yield from ((f"labels[{index}].node", each.node) for index, each in enumerate(request.labels))
    yield from ((f"taints[{index}].node", each.node) for index, each in enumerate(request.taints))


def _more_nodes(given: NodesToAdd) -> MoreNodes:
    return MoreNodes(given.count, given.like)


def _taint(given: TaintEdit) -> Taint:
    return Taint(key=given.key, value=given.value, effect=given.effect)
