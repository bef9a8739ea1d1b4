"""The request of `POST /explain`: pods that do not exist yet, and the groups that they are in.

{"objects": [{"kind": "Deployment", ...}, {"kind": "ResourceClaimTemplate", ...}], "namespace": "shop"}
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from kscheduler.assembly import group_apis
from kscheduler.explain.answer import API_VERSION
from kscheduler.explain.queries.explain_query import ExplainQuery, GroupExplainQuery
from kscheduler.explain.queries.new_groups import ClusterGroups, queries_about_new
from kscheduler.explain.queries.new_pods import new_pods_of
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.known_kinds import known
from kscheduler.scenario.request_bodies import decoded_request, documents_of
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving

Tree = dict[str, Any]

KIND: Final = "ExplanationRequest"
# New pods and pod groups of one question: each is a decision, and up to 600 KB of answer at 5,000 nodes.
MAX_EXPLAINED: Final = 16


class NewPodsRequest(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """Which new pods. An unknown field is an error."""

    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})] = API_VERSION
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})] = KIND
    objects: Annotated[
        list[dict[str, Any]],
        Meta(
            description="Manifests of pods, of workloads that make pods, of pod groups, and of what comes with them. "
            "Of a workload the first pod is explained, and all of its pods if they are in a pod group that is "
            "followed: pods of one group are answered together.",
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
    request: NewPodsRequest,
    objects: ClusterObjects,
    served: Serving,
    classes: Mapping[str, Tree],
    groups: ClusterGroups | None = None,
) -> list[ExplainQuery | GroupExplainQuery]:
    """Its questions over the objects and groups of a service. `classes`: its PriorityClasses, by name.

    Raises `ScenarioError`.
    """
    documents = list(documents_of(request.objects, request.places))
    if request.admitted and len(documents) != len(request.objects):
        raise ScenarioError("admitted: with it each member of a list has to be one of the objects")
    notes: list[str] = []
    read, apis = known(documents, notes, are_new=True), group_apis(served.config)
    news, other_objects = new_pods_of(read, notes, request.namespace, classes, apis)
    # A manifest that makes pods is of one version alone, so it is still the tree that was sent.
    admitted = {id(document.tree): pod for document, pod in zip(documents, request.admitted, strict=False)}
    made = [(new, None if new.source is None else admitted.get(id(new.source.tree))) for new in news]
    return queries_about_new(made, objects, other_objects, served, groups=groups, most=MAX_EXPLAINED)
