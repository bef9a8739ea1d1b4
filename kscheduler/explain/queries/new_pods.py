"""Questions about pods that do not exist yet: the cluster as it would be with a new pod, its owners and its claims.

They come from files, or to the running service as the JSON object of `POST /explain` (`new_pods_request`). Those that
are in a pod group are asked about with it (`new_groups`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from kscheduler.api.codec import UndecodableError, convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES
from kscheduler.api.meta import KubeObject
from kscheduler.explain.queries.explain_query import ExplainQuery, query_about, with_claim_templates
from kscheduler.explain.situation import ObjectKey
from kscheduler.scenario.device_claims import specs_of_made, with_claims
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.manifests import (
    KIND_BY_NAME,
    NO_CLASSES,
    Manifests,
    merged,
    new_pod,
    objections_to,
    read_object,
    sorted_out,
)
from kscheduler.scenario.new_objects import is_pod_group
from kscheduler.scenario.new_pods import WORKLOADS, NewPod, misspelt_in_new, new_pods
from kscheduler.scenario.object_files import Document
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.scenario.unreadable import unreadable_quantity
from kscheduler.state.group_apis import GroupAPI
from kscheduler.text import some

Tree = dict[str, Any]
# Pods that a note names.
NAMED: Final = 3


def new_pods_of(
    documents: Sequence[Document],
    notes: Iterable[str],
    namespace: str,
    classes: Mapping[str, Tree] = NO_CLASSES,
    apis: Sequence[GroupAPI] = (),
) -> tuple[list[NewPod], Manifests]:
    """The new pods of documents, and their other objects. `notes`: on the documents.

    One that an API server would refuse costs itself alone. `classes`: the PriorityClasses that are known, by name.
    Others are noted, and count as 0. `apis`: of pod groups, those that are followed. Raises `ScenarioError` if neither
    a pod nor a group is left.
    """
    news: list[NewPod] = []
    sound: list[Document] = []
    problems: list[str] = []
    for document in documents:
        try:
            refused = objections_to(document)
            made = [] if refused else [*new_pods([document], namespace)]
        except ScenarioError as problem:
            refused, made = [str(problem)], []
        if refused:
            problems += refused
        else:
            sound.append(document)
            news += made
    others = [document for document in sound if document.tree.get("kind") != PODS.name]
    if not news and not any(map(is_pod_group, others)):
        raise ScenarioError("\n".join([*problems, *notes]))
    other_objects = sorted_out(others, namespace=namespace, classes=classes, apis=apis, are_all=not news)
    other_objects.notes[:0] = [*notes, *(f"{problem}: it is left out" for problem in problems)]
    other_objects.note_others(WORKLOADS)
    other_objects.notes.extend(note for document in sound for note in misspelt_in_new(document))
    return news, other_objects


# A new pod as the API server would store it, or why it would not create it; `None`: nobody has asked.
Made = Tree | str | None


def made(new: NewPod, admitted: Made, other_objects: Manifests) -> Pod:
    """The pod that would be there. Raises `ScenarioError` where it cannot be created, or not be read."""
    match admitted:
        case str():
            raise ScenarioError(f"{new.where}: the API server would not create it: {admitted}")
        case None:
            pod = new_pod(new.tree, other_objects, new.where)
        case tree:
            try:
                pod = convert(tree, Pod)
            except UndecodableError as error:
                raise ScenarioError(f"{new.where}: {error}") from None
    problem = unreadable_quantity(pod)
    if problem:
        raise ScenarioError(f"{new.where}: {problem}")
    return pod


def query_about_new(
    new: NewPod, pod: Pod, objects: ClusterObjects, other_objects: Manifests, served: Serving
) -> ExplainQuery:
    """Where a new pod would go; `other_objects` are the other objects of its file, which are assumed to exist.

    The pod gets no UID: the random UID of a dry run would break ties by chance.
    """
    added = added_with([new], other_objects)
    cluster = merged(objects, added)
    exists = any(existing.key == pod.key for existing in objects.pods)
    notes = [*new.notes, *other_objects.notes, *added.notes]
    if exists:
        notes.append(f"a pod {pod.key} exists already; this explains the pod of {new.where}")
    (fresh,), cluster, missing = with_new_claims([as_new(pod)], cluster)
    notes += missing
    query = query_about(fresh, cluster, served, new.where, tuple(notes), new.origin)
    query = replace(query, situation=replace(query.situation, of_file=keys_in(added)))
    return with_claim_templates(query, templates_of([pod], cluster))


def added_with(news: Iterable[NewPod], other_objects: Manifests) -> Manifests:
    """What is there beside the cluster: the other objects of the file, and what would be created with the pods.

    Raises `ScenarioError`.
    """
    added = Manifests(
        objects={plural: list(found) for plural, found in other_objects.objects.items() if plural != PODS.plural},
        claim_templates=other_objects.claim_templates,
    )
    for document in (each for new in news for each in new.accompanying):
        kind = KIND_BY_NAME[str(document.tree["kind"])]
        added.objects[kind.plural].append(read_object(document, kind, added))
    return added


def as_new(pod: Pod) -> Pod:
    """The pod as if it had just been created: without the UID, deletion and status that a dry run, or the file of a pod
    that existed, brings along.
    """
    nameless = msgspec.structs.replace(pod.metadata, uid="", deletion_timestamp=None)
    status = msgspec.structs.replace(pod.status, conditions=(), nominated_node_name="")
    return msgspec.structs.replace(pod, metadata=nameless, status=status)


def keys_in(added: Manifests) -> frozenset[ObjectKey]:
    """The objects of a file by kind, namespace and name."""
    listed: list[tuple[str, Sequence[KubeObject]]] = [*added.objects.items()]
    listed.append((RESOURCE_CLAIM_TEMPLATES.plural, added.claim_templates))
    return frozenset(
        (plural, each.metadata.namespace, each.metadata.name) for plural, objects in listed for each in objects
    )


def with_new_claims(pods: Sequence[Pod], objects: ClusterObjects) -> tuple[tuple[Pod, ...], ClusterObjects, list[str]]:
    """The pods with the claims that would be made for them, the cluster with them, and a note per missing template.

    Each note names `NAMED` pods at most.
    """
    if not any(pod.names_claim_templates for pod in pods):
        return tuple(pods), objects, []
    by_key = {template.key: template.spec.spec for template in objects.resourceclaimtemplates}
    specs = specs_of_made(objects.pods, objects.resourceclaims) | by_key
    claims = {claim.key: claim for claim in objects.resourceclaims}
    seen: list[Pod] = []
    lacking: dict[tuple[str, str], list[str]] = {}
    """By claim's name in the pod, and by template, the pods."""
    for pod in pods:
        after = with_claims(pod, specs, claims.__contains__)
        claims |= {claim.key: claim for claim in after.claims}
        seen.append(after.pod)
        for missing in after.missing:
            lacking.setdefault(missing, []).append(pod.key)
    notes = [
        f"ResourceClaimTemplate {template}, which claim {entry} of {', '.join(some(keys, NAMED))} is made from, is not "
        "known: the claim is not made"
        for (entry, template), keys in lacking.items()
    ]
    return tuple(seen), msgspec.structs.replace(objects, resourceclaims=tuple(claims.values())), notes


def templates_of(pods: Sequence[Pod], objects: ClusterObjects) -> dict[str, ResourceClaimTemplate | None]:
    """By name those that claims of the pods, of one namespace, are made from, as far as they are known."""
    names = {entry.resource_claim_template_name for pod in pods for entry in pod.spec.resource_claims}
    return {
        template.metadata.name: template
        for template in objects.resourceclaimtemplates
        if template.metadata.name in names and template.metadata.namespace == pods[0].metadata.namespace
    }
