"""The cluster as it would be with a new pod, including the owners and claims that come with it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from kscheduler.api.codec import UndecodableError, convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import KINDS, PODS, RESOURCE_CLAIM_TEMPLATES
from kscheduler.api.meta import KubeObject
from kscheduler.api.new_objects import UncheckableObjectError
from kscheduler.api.storage import PersistentVolumeClaim, StorageClass, default_class
from kscheduler.explain.queries.explain_query import ExplainQuery, query_about, with_claim_templates
from kscheduler.explain.situation import ObjectKey
from kscheduler.scenario.device_claims import specs_of_made, with_claims
from kscheduler.scenario.files import ScenarioError
from kscheduler.scenario.manifests import KIND_BY_NAME, DefaultPod, Manifests, default_pod_here, read_object, sorted_out
from kscheduler.scenario.new_objects import place_of
from kscheduler.scenario.new_pods import WORKLOADS, NewPod, misspelt_in_new, new_pods
from kscheduler.scenario.object_files import Document
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.scenario.unreadable import unreadable_quantity

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NewObjectRules:
    """What new objects must be like."""

    default_pod: DefaultPod
    objections: Callable[[Tree], Sequence[str]]
    """What an API server would say against an object, each as `FIELD: TEXT`."""
    classes: Mapping[str, Tree] = field(default_factory=dict)
    """The PriorityClasses that are known, by name. Others are noted, and count as 0."""


def objections_to(document: Document, rules: NewObjectRules) -> list[str]:
    """What an API server would say against a new object, with its place. Raises `ScenarioError`: it cannot be read."""
    try:
        return [f"{place_of(document)}: {each}" for each in rules.objections(document.tree)]
    except UncheckableObjectError as problem:
        raise ScenarioError(f"{place_of(document)}: {problem}") from None


def new_pods_of(
    documents: Sequence[Document], notes: Iterable[str], namespace: str, rules: NewObjectRules
) -> tuple[list[NewPod], Manifests]:
    """The new pods of documents, and their other objects. `notes`: on the documents.

    One that an API server would refuse costs itself alone. Raises `ScenarioError` if no pod is left.
    """
    news: list[NewPod] = []
    sound: list[Document] = []
    problems: list[str] = []
    for document in documents:
        try:
            refused = objections_to(document, rules)
            made = [] if refused else [*new_pods([document], namespace)]
        except ScenarioError as problem:
            refused, made = [str(problem)], []
        if refused:
            problems += refused
        else:
            sound.append(document)
            news += made
    if not news:
        raise ScenarioError("\n".join([*problems, *notes]))
    others = [document for document in sound if document.tree.get("kind") != PODS.name]
    besides = sorted_out(others, rules.default_pod, namespace=namespace, classes=rules.classes)
    besides.notes[:0] = [*notes, *(f"{problem}: it is left out" for problem in problems)]
    besides.note_others(WORKLOADS)
    besides.notes.extend(note for document in sound for note in misspelt_in_new(document))
    return news, besides


# A new pod as the API server would store it, or why it would not create it; `None`: nobody has asked.
Made = Tree | str | None


def queries_about_new(
    news: Iterable[tuple[NewPod, Made]],
    objects: ClusterObjects,
    besides: Manifests,
    served: Serving,
    rules: NewObjectRules,
    notes: Iterable[str] = (),
) -> list[ExplainQuery]:
    """Where new pods would go. One that cannot be created is noted, and the others are answered.

    `notes`: on the cluster. Raises `ScenarioError` if none can be created.
    """
    made: list[tuple[NewPod, Pod]] = []
    problems: list[str] = []
    for new, admitted in news:
        try:
            made.append((new, _made(new, admitted, besides, rules)))
        except ScenarioError as problem:
            problems.append(str(problem))
    if not made:
        raise ScenarioError("\n".join(problems))
    reported = (*notes, *(f"{problem}: it is left out" for problem in problems))
    queries = (query_about_new(new, pod, objects, besides, served, rules.default_pod) for new, pod in made)
    return [replace(each, notes=tuple(dict.fromkeys((*reported, *each.notes)))) for each in queries]


def _made(new: NewPod, admitted: Made, besides: Manifests, rules: NewObjectRules) -> Pod:
    """Raises `ScenarioError`."""
    match admitted:
        case str():
            raise ScenarioError(f"{new.where}: the API server would not create it: {admitted}")
        case None:
            pod = locally_defaulted(new, besides, rules.default_pod)
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
    new: NewPod, pod: Pod, objects: ClusterObjects, besides: Manifests, served: Serving, default_pod: DefaultPod
) -> ExplainQuery:
    """Where a new pod would go; `besides` are the other objects of its file, which are assumed to exist.

    The pod gets no UID: the random UID of a dry run would break ties by chance.
    """
    added = Manifests(
        objects={plural: list(found) for plural, found in besides.objects.items() if plural != PODS.plural},
        claim_templates=besides.claim_templates,
    )
    for document in new.besides:
        kind = KIND_BY_NAME[str(document.tree["kind"])]
        added.objects[kind.plural].append(read_object(document, kind, added, default_pod))
    cluster = merged(objects, added)
    exists = any(existing.key == pod.key for existing in objects.pods)
    notes = [*new.notes, *besides.notes, *added.notes]
    if exists:
        notes.append(f"a pod {pod.key} exists already; this explains the pod of {new.where}")
    nameless = msgspec.structs.replace(pod.metadata, uid="", deletion_timestamp=None)
    # Nothing has happened to it yet: what a dry run says of it, or the file of a pod that was there, is not its story.
    status = msgspec.structs.replace(pod.status, conditions=(), nominated_node_name="")
    unmet = msgspec.structs.replace(pod, metadata=nameless, status=status)
    fresh, cluster, missing = _with_claims(unmet, cluster)
    notes += missing
    query = query_about(fresh, cluster, served, new.where, tuple(notes), new.origin)
    query = replace(query, situation=replace(query.situation, of_file=_keys(added)))
    return with_claim_templates(query, _templates_of(pod, cluster))


def _keys(added: Manifests) -> frozenset[ObjectKey]:
    """The objects of a file by kind, namespace and name."""
    listed: list[tuple[str, Sequence[KubeObject]]] = [*added.objects.items()]
    listed.append((RESOURCE_CLAIM_TEMPLATES.plural, added.claim_templates))
    return frozenset(
        (plural, each.metadata.namespace, each.metadata.name) for plural, objects in listed for each in objects
    )


def _with_claims(pod: Pod, objects: ClusterObjects) -> tuple[Pod, ClusterObjects, list[str]]:
    """The pod with the claims that would be made for it, the cluster with them, and a note per missing template."""
    by_key = {template.key: template.spec.spec for template in objects.resourceclaimtemplates}
    taken = {claim.key for claim in objects.resourceclaims}
    after = with_claims(pod, specs_of_made(objects.pods, objects.resourceclaims) | by_key, taken.__contains__)
    claims = (*objects.resourceclaims, *after.claims)
    notes = [
        f"ResourceClaimTemplate {template}, which claim {entry} of {pod.key} is made from, is not known: the claim is "
        "not made"
        for entry, template in after.missing
    ]
    return after.pod, msgspec.structs.replace(objects, resourceclaims=claims) if after.claims else objects, notes


def _templates_of(pod: Pod, objects: ClusterObjects) -> dict[str, ResourceClaimTemplate | None]:
    """By name those that the pod's claims are made from, as far as they are known."""
    names = {entry.resource_claim_template_name for entry in pod.spec.resource_claims}
    return {
        template.metadata.name: template
        for template in objects.resourceclaimtemplates
        if template.metadata.name in names and template.metadata.namespace == pod.metadata.namespace
    }


def locally_defaulted(new: NewPod, known: Manifests, default_pod: DefaultPod) -> Pod:
    """The pod with the defaults of the embedded API server. Raises `ScenarioError`."""
    default_pod_here(new.tree, known, default_pod, new.where)
    pod = read_object(Document(new.tree, new.where), PODS, Manifests(), default_pod)
    assert isinstance(pod, Pod)  # noqa: S101  that is the struct of PODS
    return pod


def merged(objects: ClusterObjects, more: Manifests) -> ClusterObjects:
    """The cluster with further objects; an object replaces another of the same name. Groups are not among them."""
    fields: dict[str, Any] = {
        plural: _replaced(getattr(objects, plural), more.objects.get(plural, ())) for plural in KINDS
    }
    fields["resourceclaimtemplates"] = _replaced(objects.resourceclaimtemplates, more.claim_templates)
    fields["persistentvolumeclaims"] = tuple(
        _with_default_class(claim, fields["storageclasses"]) for claim in fields["persistentvolumeclaims"]
    )
    return msgspec.structs.replace(objects, **fields)


def _replaced(before: Iterable[KubeObject], more: Iterable[KubeObject]) -> tuple[KubeObject, ...]:
    found = {obj.key: obj for obj in before}
    found.update((obj.key, obj) for obj in more)
    return tuple(found.values())


def _with_default_class(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> PersistentVolumeClaim:
    """The claim with the default class if it is new and names none, as the API server's admission does."""
    if claim.metadata.uid or claim.spec.storage_class_name is not None or claim.storage_class:
        return claim
    chosen = default_class(classes)
    if chosen is None:
        return claim
    spec = msgspec.structs.replace(claim.spec, storage_class_name=chosen.metadata.name)
    return msgspec.structs.replace(claim, spec=spec)
