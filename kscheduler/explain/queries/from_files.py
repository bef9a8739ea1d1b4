"""Questions from files: scenarios, each with its own cluster, or the objects of a cluster with its pods."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from kscheduler.api.core import Node, Pod
from kscheduler.api.kinds import PODS
from kscheduler.assembly import group_apis
from kscheduler.explain.queries.explain_query import (
    ExplainQuery,
    GroupExplainQuery,
    query_about,
    query_about_group,
    with_claim_templates,
    with_gate_owners,
)
from kscheduler.explain.queries.named_groups import member_to_explain, members_of, no_member
from kscheduler.explain.queries.named_workloads import Workload, no_pods, pods_of, which_of
from kscheduler.explain.queries.new_groups import ClusterGroups, queries_about_new
from kscheduler.explain.queries.new_pods import new_pods_of
from kscheduler.framework.cluster.pod_groups import GroupKey
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.files import named_files
from kscheduler.scenario.known_kinds import known
from kscheduler.scenario.manifests import MAX_REPORTED, Manifests, sorted_out
from kscheduler.scenario.membership import queried_group_of, waiting_group_of
from kscheduler.scenario.new_objects import read_new_objects
from kscheduler.scenario.object_files import Document, names_of, nothing_in
from kscheduler.scenario.owners import gate_owners
from kscheduler.scenario.scenario import ClusterObjects, GroupScenario, read_source
from kscheduler.scenario.serving import Serving
from kscheduler.scenario.unreadable import LeftOut, notes_of, readable
from kscheduler.state.pod_groups import PodGroupTable


@dataclass(frozen=True, slots=True)
class PodSelection:
    """The pods to explain: `name`, a member of `group`, the new ones of `manifests`, or all pending pods."""

    namespace: str = "default"
    name: str = ""
    manifests: Sequence[str] = ()
    """Files with new pods; `-` is standard input."""
    workload: Workload | None = None
    """A workload of the namespace, one of whose pods is explained."""
    group: str = ""
    """The name of a pod group of the namespace."""
    against: str = ""
    """A node that the answers speak of."""
    is_about_a_cluster: bool = False
    """Whether there were flags that do not apply to scenarios, which have their own pod and configuration."""


def queries_from(
    given: Sequence[str], selection: PodSelection, served: Serving
) -> Iterator[ExplainQuery | GroupExplainQuery]:
    """Yields the questions of the files that the names stand for. Raises `ScenarioError` where one cannot be read.

    What is not read of files of objects is noted.
    """
    files, notes = named_files(given)
    source = chain.from_iterable(read_source(path, served.config.gates, notes) for path in files)
    first = next(source, None)
    if first is None:
        raise ScenarioError("\n".join(notes)) if notes else nothing_in(given)
    if not isinstance(first, Document):
        if selection.is_about_a_cluster:
            raise ScenarioError(
                f"{first.where}: scenarios bring their pod and configuration: a POD, -n, -f, --config and "
                "--scheduler-name go with a file of Kubernetes objects"
            )
        for scenario in chain([first], source):
            if isinstance(scenario, Document):
                raise ScenarioError(f"{scenario.where}: a Kubernetes object among scenarios")
            if isinstance(scenario, GroupScenario):
                yield GroupExplainQuery(scenario, scenario.notes)
            else:
                yield ExplainQuery(scenario, notes=scenario.notes)
        return
    documents = [first]
    for document in source:
        if not isinstance(document, Document):
            raise ScenarioError(f"{document.where}: a scenario among Kubernetes objects")
        documents.append(document)
    documents = known(documents, notes)
    owners = _gate_owners(documents)
    found = sorted_out(documents, apis=group_apis(served.config))
    found.notes[:0] = notes
    found.note_others()
    found.note_no_nodes(names_of(given))
    found.note_no_devices(names_of(given))
    for query in queries_in_cluster(found, names_of(given), selection, served):
        if isinstance(query, ExplainQuery):
            yield with_gate_owners(query, owners.get(query.scenario.pod.key, ()))
        else:
            yield query


def _gate_owners(documents: Iterable[Document]) -> dict[str, tuple[str, ...]]:
    """By key of a pod who has set its gates."""
    found = {}
    for document in documents:
        if document.tree.get("kind") == "Pod" and (owners := gate_owners(document.tree)):
            metadata = document.tree["metadata"]
            found[f"{metadata.get('namespace', 'default')}/{metadata.get('name', '')}"] = owners
    return found


def queries_in_cluster(
    found: Manifests, path: str, selection: PodSelection, served: Serving
) -> Iterator[ExplainQuery | GroupExplainQuery]:
    """Yields the questions about the objects of a cluster. `path`: where they are from. Raises `ScenarioError`."""
    for query in _in_cluster(found, path, selection, served):
        if isinstance(query, ExplainQuery):
            pod, templates = query.scenario.pod, query.scenario.objects.resourceclaimtemplates
            # Of a name that is not there nothing is known: few ask for this kind.
            named = {
                each.metadata.name: each for each in templates if each.metadata.namespace == pod.metadata.namespace
            }
            yield with_claim_templates(query, named)
        else:
            yield query


def _in_cluster(
    found: Manifests, path: str, selection: PodSelection, served: Serving
) -> Iterator[ExplainQuery | GroupExplainQuery]:
    objects, left_out = readable(found.cluster())
    notes = (*found.notes, *notes_of(left_out, path))
    if selection.workload is not None:
        pods = pods_of(objects.pods, selection.namespace, selection.workload, objects.replicasets)
        one = member_to_explain(pods)
        if one is None:
            raise ScenarioError(f"{path}: {no_pods(selection.namespace, selection.workload)}")
        notes = (*notes, which_of(pods, one, selection.namespace, selection.workload))
        selection = dataclasses.replace(selection, name=one.metadata.name, workload=None)
    _refuse_about(left_out, path, selection)
    if selection.manifests:
        yield from _about_new(found, objects, notes, selection, served)
        return
    served = served.following(pod.spec.scheduler_name for pod in objects.pods if not pod.spec.node_name)
    explained: set[GroupKey] = set()
    """Groups without parents, and roots: a tree is answered as a whole."""
    known = PodGroupTable(group_apis(served.config))
    for definition in found.groups:
        known.put(definition)
    incomplete = _incomplete_groups(left_out, known, served)
    is_named = bool(selection.name or selection.group)
    not_evaluated = [
        f"pod group {key.text} is not judged: of a member: {each.text}" for key, each in incomplete.items()
    ]
    notes = notes if is_named else (*notes, *not_evaluated)
    skipped = answered = 0
    for pod in _selected_pods(objects.pods, path, selection, left_out, found.unread):
        key = queried_group_of(pod, served, is_named=bool(selection.group))
        if key is None:
            yield query_about(pod, objects, served, path, notes)
        elif (root := known.root_of(key) or key) in incomplete:
            if is_named:
                raise ScenarioError(f"{path}: pod group {key.text}: of a member: {incomplete[root].text}")
            skipped += 1
            continue
        elif root not in explained:
            explained.add(root)
            absent = found.missing_groups, found.awaited_topologies
            yield query_about_group(key, objects, found.groups, served, path, notes, *absent)
        answered += 1
    if skipped and not answered:
        raise ScenarioError(f"{path}: {not_evaluated[0]}")


def _about_new(
    found: Manifests,
    objects: ClusterObjects,
    notes: tuple[str, ...],
    selection: PodSelection,
    served: Serving,
) -> Iterator[ExplainQuery | GroupExplainQuery]:
    """Raises `ScenarioError` if none can be answered."""
    documents, not_read = read_new_objects(selection.manifests)
    classes, apis = found.priority_classes, group_apis(served.config)
    news, other_objects = new_pods_of(documents, not_read, selection.namespace, classes, apis)
    of_cluster = ClusterGroups(found.groups, found.missing_groups)
    yield from queries_about_new(((new, None) for new in news), objects, other_objects, served, notes, of_cluster)


def _refuse_about(left_out: Iterable[LeftOut], path: str, selection: PodSelection) -> None:
    """Raises `ScenarioError` if the question names an object that cannot be read."""
    pod = f"{selection.namespace}/{selection.name}" if selection.name else ""
    for each in left_out:
        if each.found.key == (selection.against if isinstance(each.found, Node) else pod):
            raise ScenarioError(f"{path}: {each.text}")


def _incomplete_groups(left_out: Iterable[LeftOut], known: PodGroupTable, served: Serving) -> dict[GroupKey, LeftOut]:
    """Groups (of trees the roots) with a waiting member that cannot be read: nothing can be said of them without it."""
    found = {}
    for each in left_out:
        key = waiting_group_of(each.found, served) if isinstance(each.found, Pod) else None
        if key is not None:
            found[known.root_of(key) or key] = each
    return found


def _selected_pods(
    pods: tuple[Pod, ...],
    path: str,
    selection: PodSelection,
    left_out: Iterable[LeftOut],
    unread: Mapping[tuple[str, str], str],
) -> list[Pod]:
    """Raises `ScenarioError`, also about a pod that is there and cannot be read."""
    if selection.name:
        key = f"{selection.namespace}/{selection.name}"
        named = [pod for pod in pods if pod.key == key]
        if not named and (PODS.name, key) in unread:
            raise ScenarioError(unread[PODS.name, key])
        if not named:
            raise ScenarioError(f"{path}: there is no pod {key} among its {len(pods)} pods")
        return named
    if selection.group:
        member = member_to_explain(members_of(pods, selection.namespace, selection.group))
        if member is None:
            raise ScenarioError(f"{path}: {no_member(selection.namespace, selection.group)}, of its {len(pods)} pods")
        return [member]
    pending = [pod for pod in pods if not pod.spec.node_name and not pod.is_terminal]
    waiting = [each for each in left_out if isinstance(each.found, Pod) and not each.found.spec.node_name]
    if waiting and not pending:
        raise ScenarioError(f"{path}: {waiting[0].text}")
    if not pending:
        no_pending_pod = f"{path}: none of its {len(pods)} pods is pending; name one, or give one with -f"
        raise ScenarioError("\n".join([no_pending_pod, *list(unread.values())[:MAX_REPORTED]]))
    return pending
