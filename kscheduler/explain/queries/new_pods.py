"""Questions about pods that do not exist yet: the cluster as it would be with a new pod, its owners and its claims.

They come from files, or to the running service as the JSON object of `POST /explain`:

{"objects": [{"kind": "Deployment", ...}, {"kind": "ResourceClaimTemplate", ...}], "namespace": "shop"}
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kscheduler.api.codec import UndecodableError, convert
from kscheduler.api.core import Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES
from kscheduler.api.meta import KubeObject
from kscheduler.explain.answer import API_VERSION
from kscheduler.explain.queries.explain_query import ExplainQuery, query_about, with_claim_templates
from kscheduler.explain.situation import ObjectKey
from kscheduler.scenario.device_claims import specs_of_made, with_claims
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import nearest
from kscheduler.scenario.known_kinds import known
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
from kscheduler.scenario.new_pods import WORKLOADS, NewPod, misspelt_in_new, new_pods
from kscheduler.scenario.object_files import Document, field_first, flattened
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.scenario.unreadable import unreadable_quantity

Tree = dict[str, Any]


def new_pods_of(
    documents: Sequence[Document], notes: Iterable[str], namespace: str, classes: Mapping[str, Tree] = NO_CLASSES
) -> tuple[list[NewPod], Manifests]:
    """The new pods of documents, and their other objects. `notes`: on the documents.

    One that an API server would refuse costs itself alone. `classes`: the PriorityClasses that are known, by name.
    Others are noted, and count as 0. Raises `ScenarioError` if no pod is left.
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
    if not news:
        raise ScenarioError("\n".join([*problems, *notes]))
    others = [document for document in sound if document.tree.get("kind") != PODS.name]
    other_objects = sorted_out(others, namespace=namespace, classes=classes)
    other_objects.notes[:0] = [*notes, *(f"{problem}: it is left out" for problem in problems)]
    other_objects.note_others(WORKLOADS)
    other_objects.notes.extend(note for document in sound for note in misspelt_in_new(document))
    return news, other_objects


# A new pod as the API server would store it, or why it would not create it; `None`: nobody has asked.
Made = Tree | str | None


def queries_about_new(
    news: Iterable[tuple[NewPod, Made]],
    objects: ClusterObjects,
    other_objects: Manifests,
    served: Serving,
    notes: Iterable[str] = (),
) -> list[ExplainQuery]:
    """Where new pods would go. One that cannot be created is noted, and the others are answered.

    `notes`: on the cluster. Raises `ScenarioError` if none can be created.
    """
    made: list[tuple[NewPod, Pod]] = []
    problems: list[str] = []
    for new, admitted in news:
        try:
            made.append((new, _made(new, admitted, other_objects)))
        except ScenarioError as problem:
            problems.append(str(problem))
    if not made:
        raise ScenarioError("\n".join(problems))
    reported = (*notes, *(f"{problem}: it is left out" for problem in problems))
    queries = (query_about_new(new, pod, objects, other_objects, served) for new, pod in made)
    return [replace(each, notes=tuple(dict.fromkeys((*reported, *each.notes)))) for each in queries]


def _made(new: NewPod, admitted: Made, other_objects: Manifests) -> Pod:
    """Raises `ScenarioError`."""
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
    added = Manifests(
        objects={plural: list(found) for plural, found in other_objects.objects.items() if plural != PODS.plural},
        claim_templates=other_objects.claim_templates,
    )
    for document in new.accompanying:
        kind = KIND_BY_NAME[str(document.tree["kind"])]
        added.objects[kind.plural].append(read_object(document, kind, added))
    cluster = merged(objects, added)
    exists = any(existing.key == pod.key for existing in objects.pods)
    notes = [*new.notes, *other_objects.notes, *added.notes]
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


# --- the request of `POST /explain` ----------------------------------------------------------------------------

KIND: Final = "ExplanationRequest"
# New pods of one question: each is a decision, and up to 600 KB of answer at 5,000 nodes.
MAX_EXPLAINED: Final = 16


class NewPodsRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which new pods. An unknown field is an error."""

    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})] = API_VERSION
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})] = KIND
    objects: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Manifests of pods, of workloads that make pods, and of what comes with them. Of a workload "
            "the first pod is explained.",
            extra_json_schema={"minItems": 1},
        ),
    ] = []
    namespace: Annotated[str, Meta(min_length=1, description="Of objects that name none.")] = "default"
    admitted: Annotated[
        list[dict[str, Any] | str | None],
        Meta(
            description="By position in `objects` the pod that it makes as the API server's admission leaves it (a dry "
            "run), or as a text why it would not create it; null or missing: the defaults that every API server sets "
            "are presumed."
        ),
    ] = []
    places: Annotated[
        list[str], Meta(description="By position in `objects` where it is from, for messages; by default `objects[0]`.")
    ] = []
    against: Annotated[str, Meta(description="A node to compare with the pod's.")] = ""
    suggestions: Annotated[bool, Meta(description="false: do not look for changes that would make it fit.")] = True


_DECODER = msgspec.json.Decoder(NewPodsRequest)


def read_new_pods_request(body: bytes) -> NewPodsRequest:
    """The request. Raises `ScenarioError` that begins with the field."""
    request: NewPodsRequest = decoded_request(body, _DECODER, NewPodsRequest)
    if request.api_version != API_VERSION or request.kind != KIND:
        raise ScenarioError(f"apiVersion, kind: expected {API_VERSION}, {KIND}")
    if not request.objects:
        raise ScenarioError("objects: no pod and nothing that makes pods: give some")
    return request


def queries_of_request(
    request: NewPodsRequest, objects: ClusterObjects, served: Serving, classes: Mapping[str, Tree]
) -> list[ExplainQuery]:
    """Its questions over the objects of a service. `classes`: its PriorityClasses, by name. Raises `ScenarioError`."""
    documents = list(documents_of(request.objects, request.places))
    if request.admitted and len(documents) != len(request.objects):
        raise ScenarioError("admitted: with it each member of a list has to be one of the objects")
    notes: list[str] = []
    news, other_objects = new_pods_of(known(documents, notes, are_new=True), notes, request.namespace, classes)
    if len(news) > MAX_EXPLAINED:
        raise ScenarioError(f"objects: {len(news)} new pods are more than {MAX_EXPLAINED}: ask for some of them")
    # A manifest that makes pods is of one version alone, so it is still the tree that was sent.
    admitted = {id(document.tree): pod for document, pod in zip(documents, request.admitted, strict=False)}
    made = [(new, None if new.source is None else admitted.get(id(new.source.tree))) for new in news]
    return queries_about_new(made, objects, other_objects, served)


def documents_of(objects: Sequence[dict[str, Any]], places: Sequence[str] = ()) -> Iterator[Document]:
    """The objects of a request, and the members of lists among them. Raises `ScenarioError`."""
    for index, tree in enumerate(objects):
        yield from flattened(tree, places[index] if index < len(places) else f"objects[{index}]")


def decoded_request(body: bytes, decoder: msgspec.json.Decoder[Any], kind: type[msgspec.Struct]) -> Any:
    """The body of a question, all of whose fields may be missing. Raises `ScenarioError` that begins with the field."""
    try:
        return decoder.decode(body or b"{}")
    except msgspec.ValidationError as problem:
        raise ScenarioError(_with_suggestion(str(problem), kind.__struct_encode_fields__)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ScenarioError(f"the body is not JSON: {problem}") from None


def _with_suggestion(message: str, fields: Sequence[str]) -> str:
    """Msgspec's text with the field first; an unknown field with the nearest known one."""
    text = field_first(message)
    unknown = message.partition("unknown field `")[2].partition("`")[0]
    near = nearest(unknown, fields) if unknown else ""
    return f"{text}: do you mean {near}?" if near else text
