"""Questions about a cluster that was read, and the cluster that comes of them: functions over a `ClusterInput`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kscheduler.aio.synchronous import run_synchronously
from kscheduler.api.core import Node, Pod
from kscheduler.api.groups import GROUP_PREFIXES
from kscheduler.api.priority import PRIORITY_CLASS, classes_of
from kscheduler.assembly import group_apis
from kscheduler.explain.queries.explain_query import ExplainQuery, GroupExplainQuery
from kscheduler.explain.queries.from_files import PodSelection, queries_in_cluster
from kscheduler.explain.queries.new_groups import ClusterGroups, queries_about_new
from kscheduler.explain.queries.new_pods import new_pods_of, query_about_new
from kscheduler.library.configured import is_text
from kscheduler.library.given import Given, GivenObjects, given_objects
from kscheduler.scenario.cluster_input import ClusterInput, manifests_in
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import nearest_node
from kscheduler.scenario.files import EXTENSIONS
from kscheduler.scenario.known_kinds import known
from kscheduler.scenario.manifests import Manifests, merged
from kscheduler.scenario.new_pods import NewPod
from kscheduler.scenario.object_files import field_first
from kscheduler.scenario.serving import Serving
from kscheduler.scenario.unreadable import readable
from kscheduler.simulate.from_request import SimulationRequest, requested_changes_of
from kscheduler.simulate.planning import planned
from kscheduler.simulate.requested_changes import RequestedChanges, new_objects, refuse_too_many
from kscheduler.simulate.requested_nodes import refuse_too_many_nodes
from kscheduler.simulate.run_simulation import played
from kscheduler.simulate.simulation_result import Simulation
from kscheduler.telemetry.logs.kept import Line, warnings_kept

# Fields of a simulation's request, as the parameters of `Cluster.simulate` call them.
_PARAMETERS: Final = {"addNodes": "add_nodes", "removeNodes": "remove_nodes"}
# What no pod's name has: the name of a file has it that is a pattern.
_OF_PATTERNS: Final = "*?["


class PlayedChanges(NamedTuple):
    """What has come of changes."""

    answer: Simulation
    after: ClusterInput
    notes: tuple[str, ...]


def with_objects(before: ClusterInput, given: GivenObjects) -> ClusterInput:
    """The cluster with further objects, also in place of others of their name.

    Raises `ScenarioError` for an object that cannot be read: whoever writes one wants to hear of it.
    """
    found = manifests_in(given.documents, before.served, list(given.notes))
    if found.unread:
        raise ScenarioError("\n".join(found.reported_unread()))
    found.note_others()
    found.objects["nodes"].extend(given.nodes)
    found.objects["pods"].extend(given.pods)
    _refuse_nameless(found)
    found.leave_out_doubled()
    _, unreadable = readable(found.cluster())
    if unreadable:
        raise ScenarioError("\n".join(each.text for each in unreadable))
    groups = {group.key: group for group in (*before.groups, *found.groups)}
    objects = merged(before.objects, found)
    after = ClusterInput(
        objects,
        before.served,
        before.where,
        [*before.notes, *found.notes],
        [*groups.values()],
        {**before.priority_classes, **found.priority_classes},
        before.absent.beside(objects),
    )
    after.follow_pods()
    return after


def _refuse_nameless(found: Manifests) -> None:
    """Raises `ScenarioError`: objects of a cluster are told apart by their names."""
    for plural, listed in found.objects.items():
        if any(not each.metadata.name for each in listed):
            raise ScenarioError(f"{plural}: metadata.name: is missing; only new pods, of `schedule`, may have none")


def requested_changes(asked: Mapping[str, Any], nodes: Iterable[Node]) -> RequestedChanges:
    """The fields of a `SimulationRequest`, without objects. Raises `ScenarioError` that begins with the parameter."""
    try:
        request = msgspec.convert(asked, SimulationRequest)
        changes = requested_changes_of(request, [node.metadata.name for node in nodes])
        refuse_too_many_nodes(changes.more_nodes, "addNodes")
    except (msgspec.ValidationError, ScenarioError) as problem:
        text = field_first(str(problem))
        field = text.partition("[")[0].partition(":")[0]
        raise ScenarioError(text.replace(field, _PARAMETERS.get(field, field), 1)) from None
    return changes


def play(before: ClusterInput, given: GivenObjects, changes: RequestedChanges, served: Serving) -> PlayedChanges:
    """Schedule what waits and what is new, with the changes. Raises `ScenarioError`."""
    if given.nodes:
        raise ScenarioError("pods: there are nodes among them: `add` makes a cluster with more nodes")
    for document in given.documents:
        refuse_too_many(document)
    if given.documents:
        changes = replace(changes, new_objects=(new_objects("pods", given.documents, given.notes),))
    classes = before.priority_classes
    plan, notes = planned(
        changes,
        before.objects,
        before.groups,
        served,
        before.where,
        classes,
        more_pods=given.pods,
        absent=before.absent,
    )
    with warnings_kept() as lines:
        simulation, objects = run_synchronously(played(plan))
    every_note = tuple(dict.fromkeys([*notes, *failures_in(lines), *simulation.notes]))
    new_classes = {
        str(document.tree["metadata"]["name"]): document.tree
        for document in given.documents
        if document.tree.get("kind") == PRIORITY_CLASS
    }
    every_class = {**classes, **new_classes}
    after = ClusterInput(objects, served, before.where, before.notes, [*plan.groups], every_class, plan.absent)
    after.follow_pods()
    return PlayedChanges(msgspec.structs.replace(simulation, notes=every_note), after, every_note)


def failures_in(lines: Iterable[Line]) -> Iterator[str]:
    """A sentence for each plugin and error: its points are missing, or its pods are pending for it."""
    failures: dict[tuple[Any, Any], str] = {}
    for line in lines:
        if line.get("event") == "plugin_failed":
            plugin, point, err = line.get("plugin"), line.get("extension_point"), line.get("err")
            failures.setdefault(
                (plugin, point), f"plugin {plugin} failed in {point}, for {line.get('pod')} first: {err}"
            )
    yield from failures.values()


def query_about_given(cluster: ClusterInput, pod: Given, namespace: str) -> ExplainQuery | GroupExplainQuery:
    """About a pod or (`podgroup/NAME`) a pod group of the cluster, or about a new one. Raises `ScenarioError`."""
    prefix, _, group = pod.partition("/") if isinstance(pod, str) else ("", "", "")
    if group and prefix.partition(".")[0].lower() in GROUP_PREFIXES:
        selection = PodSelection(namespace, group=group)
        return next(queries_in_cluster(_manifests_of(cluster), cluster.where, selection, cluster.served))
    if isinstance(pod, str) and (key := _key_of(cluster.objects.pods, pod, namespace)):
        space, _, name = key.partition("/")
        selection = PodSelection(space, name)
        return next(queries_in_cluster(_manifests_of(cluster), cluster.where, selection, cluster.served))
    if isinstance(pod, Pod):
        if any(each.key == pod.key for each in cluster.objects.pods):
            return query_about_given(cluster, pod.key, namespace)
        given_objects(pod=pod)  # which refuses what an API server would refuse
        return query_about_new(NewPod({}, "its object", "pod"), pod, cluster.objects, Manifests(), cluster.served)
    given = given_objects(pod=pod)
    if given.nodes:
        raise ScenarioError("pod: a node was given")
    if given.pods:
        if len(given.pods) + len(given.documents) > 1:
            raise ScenarioError(f"pod: {len(given.pods) + len(given.documents)} were given, and one was expected")
        return query_about_given(cluster, given.pods[0], namespace)
    if not given.documents:
        raise ScenarioError("pod: none was given")
    classes = {**classes_of(cluster.objects.pods), **cluster.priority_classes}
    notes = list(given.notes)
    documents, apis = known(given.documents, notes, are_new=True), group_apis(cluster.served.config)
    news, others = new_pods_of(documents, notes, namespace, classes, apis)
    of_cluster = ClusterGroups(cluster.groups, cluster.absent.groups, cluster.absent.topologies)
    queries = queries_about_new(
        ((new, None) for new in news), cluster.objects, others, cluster.served, groups=of_cluster
    )
    if len(queries) != 1:
        raise ScenarioError(f"pod: {len(queries)} were given, and one was expected")
    return queries[0]


def refuse_unknown_node(name: str, nodes: Sequence[Node], parameter: str) -> None:
    """Raises `ScenarioError` that begins with the parameter."""
    names = frozenset(node.metadata.name for node in nodes)
    if name not in names:
        near = nearest_node(name, names)
        raise ScenarioError(f"{parameter}: there is no node {name}{near or f' among the {len(names)} nodes'}")


def _key_of(pods: Sequence[Pod], name: str, namespace: str) -> str:
    """`namespace/name` of a pod that is named; empty: it is a manifest, or names files. Raises `ScenarioError`."""
    key = name if "/" in name else f"{namespace}/{name}"
    if any(pod.key == key for pod in pods):
        return key
    if is_text(name) or _names_files(name):
        return ""
    raise ScenarioError(f"pod: there is no pod {key} among the {len(pods)} pods")


def _names_files(name: str) -> bool:
    """Whether a text that is no pod of the cluster means a file, a folder or a pattern."""
    if name.endswith(EXTENSIONS) or any(sign in name for sign in _OF_PATTERNS):
        return True
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # longer than a path may be, or with a NUL
        return False


def _manifests_of(cluster: ClusterInput) -> Manifests:
    fields = msgspec.structs.asdict(cluster.objects)
    templates = list(fields.pop("resourceclaimtemplates"))
    return Manifests(
        objects={plural: list(listed) for plural, listed in fields.items()},
        priority_classes=dict(cluster.priority_classes),
        claim_templates=templates,
        groups=list(cluster.groups),
        missing_groups=dict(cluster.absent.groups),
        awaited_topologies=cluster.absent.topologies,
    )
