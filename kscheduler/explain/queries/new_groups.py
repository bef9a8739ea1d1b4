"""New pods, each by itself or with the pod group that it is in, and new groups whose pods are there already.

The problem: nobody decides about a member by itself. Two pods of four CPUs each fit a node of four, and their gang does
not: an answer about each alone would say that both get it.

The idea: pods that name one group, or groups of one tree, are one question, with all the pods that their manifests make
and with the members that the cluster has. The group is that of the file, or else the cluster's. A group of the file
that no new pod names is asked about with its members in the cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import msgspec

from kscheduler.api.codec import UndecodableError, convert
from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.api.names import honored
from kscheduler.assembly import group_apis
from kscheduler.explain.queries.explain_query import (
    ExplainQuery,
    GroupExplainQuery,
    query_about_group,
    with_claim_templates,
)
from kscheduler.explain.queries.new_pods import (
    NAMED,
    Made,
    added_with,
    as_new,
    keys_in,
    made,
    query_about_new,
    templates_of,
    with_new_claims,
)
from kscheduler.explain.suggestions.object_changes import group_resource
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.manifests import Manifests, merged
from kscheduler.scenario.membership import groups_not_followed, queried_group_of
from kscheduler.scenario.new_pods import NewPod, others_like
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.state.pod_groups import PodGroupTable
from kscheduler.text import some

# Pods of one question about a group: a decision about them takes a second or two.
MAX_MEMBERS: Final = 10_000

NewPods = list[tuple[NewPod, Pod]]


@dataclass(frozen=True, slots=True)
class ClusterGroups:
    """What a cluster has of pod groups; the fields are those that `query_about_group` takes."""

    definitions: Sequence[GroupDefinition] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    awaited: Mapping[str, str] = field(default_factory=dict)


def queries_about_new(
    news: Iterable[tuple[NewPod, Made]],
    objects: ClusterObjects,
    other_objects: Manifests,
    served: Serving,
    notes: Iterable[str] = (),
    groups: ClusterGroups | None = None,
    most: int | None = None,
) -> list[ExplainQuery | GroupExplainQuery]:
    """Where new pods would go. A pod, or a group, that cannot be asked about is noted, and the others are answered.

    `notes`: on the cluster. `groups`: its groups. Raises `ScenarioError` if none can be asked about, or if there are
    more than `most` questions.
    """
    there = ClusterGroups() if groups is None else groups
    created: NewPods = []
    problems: list[str] = []
    for new, admitted in news:
        try:
            created.append((new, made(new, admitted, other_objects)))
        except ScenarioError as problem:
            problems.append(str(problem))
    served = served.following(pod.spec.scheduler_name for _, pod in created)
    known = _known_groups(there, other_objects, served)
    alone, members = _by_group(created, served, known)
    for group in _named_by_no_pod(other_objects.groups, members, known):
        members[group] = []
    unfollowed = groups_not_followed(other_objects.groups, [pod for _, pod in created], served.config)
    count = len(alone) + len(members)
    if not count:
        raise ScenarioError("\n".join([*problems, *unfollowed]))
    if most is not None and count > most:
        what = "new pods and pod groups" if members else "new pods"
        raise ScenarioError(f"objects: {count} {what} are more than {most}: ask for some of them")
    missing = {**there.missing, **other_objects.missing_groups}
    with_groups = ClusterGroups(tuple(known.groups()), missing, there.awaited)
    makers: list[Callable[[], ExplainQuery | GroupExplainQuery]] = [
        *(partial(query_about_new, new, pod, objects, other_objects, served) for new, pod in alone),
        *(
            partial(_about_group, key, each, objects, other_objects, served, with_groups)
            for key, each in members.items()
        ),
    ]
    queries: list[ExplainQuery | GroupExplainQuery] = []
    for make in makers:
        try:
            queries.append(make())
        except ScenarioError as problem:
            problems.append(str(problem))
    if not queries:
        raise ScenarioError("\n".join(dict.fromkeys((*problems, *unfollowed))))
    reported = (*notes, *unfollowed, *(f"{problem}: it is left out" for problem in problems))
    return [replace(each, notes=tuple(dict.fromkeys((*reported, *each.notes)))) for each in queries]


def _known_groups(there: ClusterGroups, other_objects: Manifests, served: Serving) -> PodGroupTable:
    """Those of the cluster and of the file, which replace others of their name."""
    known = PodGroupTable(group_apis(served.config))
    for definition in (*there.definitions, *other_objects.groups):
        known.put(definition)
    return known


def _by_group(created: NewPods, served: Serving, known: PodGroupTable) -> tuple[NewPods, dict[GroupKey, NewPods]]:
    """The pods that are in no group that is followed, and the others by their group, or by one group of its tree."""
    alone: NewPods = []
    members: dict[GroupKey, NewPods] = {}
    asked: dict[GroupKey, GroupKey] = {}
    for new, pod in created:
        is_honored = served.config.configuration.honor_scheduler_name_annotation
        key = queried_group_of(honored(pod) if is_honored else pod, served, is_named=True)
        if key is None:
            alone.append((new, pod))
        else:
            members.setdefault(asked.setdefault(known.root_of(key) or key, key), []).append((new, pod))
    return alone, members


def _named_by_no_pod(
    groups: Iterable[GroupDefinition], members: Mapping[GroupKey, NewPods], known: PodGroupTable
) -> Iterator[GroupKey]:
    """Groups of the file about which no new pod asks; of a tree one."""
    asked = {known.root_of(key) or key for key in members}
    for group in groups:
        root = known.root_of(group.key) or group.key
        if known.kind_of(group.key) is not None and root not in asked:
            asked.add(root)
            yield next(iter(known.leaves(root)), group.key)


def _about_group(
    key: GroupKey,
    news: NewPods,
    objects: ClusterObjects,
    other_objects: Manifests,
    served: Serving,
    groups: ClusterGroups,
) -> GroupExplainQuery:
    """Where the members would go, those of the cluster too. Raises `ScenarioError`."""
    every = [*_all_of(news, key)]
    added = added_with((new for new, _ in every), other_objects)
    cluster = merged(objects, added)
    notes = [*dict.fromkeys(note for new, _ in every for note in new.notes), *other_objects.notes, *added.notes]
    pods, cluster, missing = with_new_claims([as_new(pod) for _, pod in every], cluster)
    there = {pod.key: pod for pod in cluster.pods}
    notes += _existing([pod.key for pod in pods if pod.key in there])
    if served.config.configuration.honor_scheduler_name_annotation:
        pods = tuple(map(honored, pods))
    there |= {pod.key: pod for pod in pods}
    cluster = msgspec.structs.replace(cluster, pods=tuple(there.values()))
    where = news[0][0].where if news else "its file"
    every_note = tuple(dict.fromkeys((*notes, *missing)))
    query = query_about_group(
        key, cluster, groups.definitions, served, where, every_note, groups.missing, groups.awaited
    )
    of_pods = {(PODS.plural, pod.metadata.namespace, pod.metadata.name) for pod in pods}
    of_groups = {_resource_key(group.key) for group in other_objects.groups}
    scenario = replace(query.scenario, of_file=keys_in(added) | of_pods | of_groups)
    query = replace(query, scenario=scenario)
    return with_claim_templates(query, templates_of(pods, cluster)) if pods else query


def _existing(keys: list[str]) -> Iterator[str]:
    """A note about the pods of these keys, if there are any."""
    if keys:
        names = ", ".join(some(keys, NAMED))
        exist = f"a pod {names} exists" if len(keys) == 1 else f"pods {names} exist"
        yield f"{exist} already; this explains {'the pod' if len(keys) == 1 else 'those'} of the file"


def _resource_key(key: GroupKey) -> tuple[str, str, str]:
    return group_resource(key), key.namespace, key.name


def _all_of(news: NewPods, key: GroupKey) -> Iterator[tuple[NewPod, Pod]]:
    """The members, with all that their manifests make. Raises `ScenarioError` if they are too many."""
    left = MAX_MEMBERS - len(news)
    if left < 0:
        raise ScenarioError(f"pod group {key.text}: {len(news)} new members: {MAX_MEMBERS} are judged at most")
    for new, pod in news:
        yield new, pod
        for other in others_like(new, left):
            left -= 1
            yield other, _like(pod, other)


def _like(first: Pod, other: NewPod) -> Pod:
    """Another pod of the same manifest: what admission does to it, it does to the first.

    Of a StatefulSet each has labels and volumes of its own. Raises `ScenarioError`.
    """
    try:
        own = convert(other.tree, Pod)
    except UndecodableError as error:
        raise ScenarioError(f"{other.where}: {error}") from None
    labels = {**first.metadata.labels, **own.metadata.labels}
    volumes = {each.name: each for each in (*first.spec.volumes, *own.spec.volumes)}
    return msgspec.structs.replace(
        first,
        metadata=msgspec.structs.replace(first.metadata, name=own.metadata.name, labels=labels),
        spec=msgspec.structs.replace(first.spec, volumes=tuple(volumes.values())),
    )
