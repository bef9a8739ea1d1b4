"""A pod of a live cluster. Objects are read once, nothing is written, and no service is needed."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from kscheduler.api.codec import Decoder, UndecodableError, convert
from kscheduler.api.core import Node, Pod
from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import DEVICE_TAINT_RULES, KINDS, NODES, PODS, RESOURCE_CLAIM_TEMPLATES, Kind
from kscheduler.api.meta import KubeObject
from kscheduler.api.priority import PRIORITY_CLASSES_PATH, classes_of, listed_classes
from kscheduler.api.topologies import not_served
from kscheduler.assembly import group_apis, topology_kinds
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.lists import ListDecoder
from kscheduler.client.rest import APIClient
from kscheduler.explain.queries.explain_query import (
    NEVER_SCHEDULED,
    ExplainQuery,
    GroupExplainQuery,
    query_about,
    query_about_group,
    with_claim_templates,
    with_gate_owners,
)
from kscheduler.explain.queries.new_groups import ClusterGroups, queries_about_new
from kscheduler.explain.queries.new_pods import new_pods_of
from kscheduler.explain.situation import pod_state_of
from kscheduler.framework.cluster.pod_groups import NOT_SERVED, GroupDefinition, unreadable
from kscheduler.informers.progress import PAGE_SIZE
from kscheduler.scenario.absent import Absent
from kscheduler.scenario.cluster_input import ClusterInput
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.membership import queried_group_of, waiting_group_of
from kscheduler.scenario.new_objects import admitted_pod, pod_groups_named_in
from kscheduler.scenario.new_pods import NewPod
from kscheduler.scenario.object_files import Document
from kscheduler.scenario.owners import gate_owners
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import LIVE, Serving
from kscheduler.scenario.unreadable import unreadable_quantity

# A person waits for the answer: give up after three tries.
_RETRIES = 2

_Found = TypeVar("_Found", bound=KubeObject)

_POD = Decoder(Pod)
_TEMPLATE = Decoder(ResourceClaimTemplate)


class UnknownPodError(ClientError):
    """The API server has no such pod."""


async def live_query(
    client: APIClient, namespace: str, name: str, served: Serving, *, of_group: bool = False
) -> ExplainQuery | GroupExplainQuery:
    """Read a pod and all objects that plugins read. A pod that waits with its group is asked about with it, and with
    `of_group` any member.

    Nodes and pods must be readable; for any other kind that may not be listed, or that the server does not have,
    there is a note. Raises `ClientError` (including `UnknownPodError`), `UndecodableError`, and `ScenarioError` for a
    pod with an amount that cannot be read.
    """
    try:
        path = PODS.object_path(name, namespace)
        raw = await client.get(path, retries=_RETRIES)
        pod = _named(_POD.decode(raw), name, f"GET {path}")
    except APIError as error:
        if error.is_not_found:
            raise UnknownPodError(f"pod {namespace}/{name} is unknown to the API server: {error.message}") from None
        raise
    problem = unreadable_quantity(pod)
    if problem:
        raise ScenarioError(f"pod {pod.key}: {problem}")
    notes: list[str] = []
    served = served.following((pod.spec.scheduler_name,))
    key = queried_group_of(pod, served, is_named=of_group)
    if key is not None:
        missing: dict[str, str] = {}
        objects, groups = await read_cluster(client, notes), await read_groups(client, served, notes, missing)
        awaited: dict[str, str] = {}
        objects = await read_topologies(client, served, objects, notes, awaited)
        members = [each for each in objects.pods if waiting_group_of(each, served) == key]
        templates = await _claim_templates(client, *members)
        objects = await _with_all_templates(client, objects, templates.values())
        about = query_about_group(key, objects, groups, served, "cluster", tuple(notes), missing, awaited)
        return with_claim_templates(about, templates)
    is_over = pod_state_of(pod, served.names) in NEVER_SCHEDULED
    objects = ClusterObjects() if is_over else await read_cluster(client, notes)
    templates = {} if is_over else await _claim_templates(client, pod)
    objects = await _with_all_templates(client, objects, templates.values())
    absent = (name for name, template in templates.items() if template is None)
    notes += [f"ResourceClaimTemplate {name} does not exist in namespace {namespace}" for name in absent]
    query = with_claim_templates(query_about(pod, objects, served, "cluster", tuple(notes)), templates)
    return with_gate_owners(query, gate_owners(msgspec.json.decode(raw))) if pod.spec.scheduling_gates else query


async def new_pod_queries(
    client: APIClient,
    documents: Sequence[Document],
    not_read: Sequence[str],
    namespace: str,
    served: Serving,
) -> list[ExplainQuery | GroupExplainQuery]:
    """Where the new pods of documents would go, those of a pod group with it. `not_read`: of their files.

    Raises `ClientError`, and `ScenarioError` where no pod can be created.
    """
    notes: list[str] = []
    objects = await read_cluster(client, notes)
    classes = await read_priority_classes(client, notes)
    classes = {**classes_of(objects.pods), **classes}
    news, other_objects = new_pods_of(documents, not_read, namespace, classes, group_apis(served.config))
    made = [(new, await admitted_pod(client, new)) for new in news]
    read: dict[tuple[str, str], ResourceClaimTemplate | None] = {}
    for new in news:
        read |= await _templates_named(client, new)
    there = tuple(template for template in read.values() if template is not None)
    objects = msgspec.structs.replace(objects, resourceclaimtemplates=there)
    objects = await _with_all_templates(client, objects, read.values())
    groups = ClusterGroups()
    if other_objects.groups or any(pod_groups_named_in(new.tree) for new in news):
        missing: dict[str, str] = {}
        awaited: dict[str, str] = {}
        definitions = await read_groups(client, served, notes, missing)
        objects = await read_topologies(client, served, objects, notes, awaited)
        groups = ClusterGroups(definitions, missing, awaited)
    queries = queries_about_new(made, objects, other_objects, served, notes, groups)
    return [_with_read(query, read) for query in queries]


def _with_read(
    query: ExplainQuery | GroupExplainQuery, read: Mapping[tuple[str, str], ResourceClaimTemplate | None]
) -> ExplainQuery | GroupExplainQuery:
    """The question with the templates of its namespace that were looked for."""
    if isinstance(query, GroupExplainQuery):
        return with_claim_templates(query, _read_in(query.scenario.group, read) | dict(query.scenario.claim_templates))
    # Those of the file come last: they are there, though the cluster does not have them.
    return with_claim_templates(query, _read_in(query.scenario.pod.key, read) | dict(query.scenario.claim_templates))


def _read_in(
    key: str, read: Mapping[tuple[str, str], ResourceClaimTemplate | None]
) -> dict[str, ResourceClaimTemplate | None]:
    """By name, of the namespace of this key."""
    return {name: template for (place, name), template in read.items() if place == key.partition("/")[0]}


async def _templates_named(client: APIClient, new: NewPod) -> dict[tuple[str, str], ResourceClaimTemplate | None]:
    try:
        pod = convert(new.tree, Pod)
    except UndecodableError:
        return {}  # making the query says what is wrong with it
    return {(pod.metadata.namespace, name): each for name, each in (await _claim_templates(client, pod)).items()}


async def _with_all_templates(
    client: APIClient, objects: ClusterObjects, named: Iterable[ResourceClaimTemplate | None]
) -> ClusterObjects:
    """With all templates of claims where one that is named does not exist, so that a near name can be told.

    Who may not list them is told that the named one is missing, as without this.
    """
    return await read_claim_templates(client, objects, []) if None in named else objects


async def _claim_templates(client: APIClient, *pods: Pod) -> dict[str, ResourceClaimTemplate | None]:
    """The templates that pods of one namespace name, `None` for those that do not exist; without those that may not be
    read.
    """
    names = (entry.resource_claim_template_name for pod in pods for entry in pod.spec.resource_claims)
    found: dict[str, ResourceClaimTemplate | None] = {}
    for name in dict.fromkeys(name for name in names if name):
        path = RESOURCE_CLAIM_TEMPLATES.object_path(name, pods[0].metadata.namespace)
        try:
            found[name] = _named(_TEMPLATE.decode(await client.get(path, retries=_RETRIES)), name, f"GET {path}")
        except APIError as error:
            if error.is_not_found and name in error.message:  # not: the server knows no such kind
                found[name] = None
            elif not (error.is_forbidden or error.is_not_found):
                raise
    return found


async def known_claim_templates(
    client: APIClient, pod: Pod, most: int, seconds: float
) -> dict[str, ResourceClaimTemplate | None]:
    """As many of them as can be read in this time, side by side and without a second try. Raises nothing."""

    async def fetched(name: str) -> tuple[str, ResourceClaimTemplate | None] | None:
        path = RESOURCE_CLAIM_TEMPLATES.object_path(name, pod.metadata.namespace)
        try:
            raw = await client.get(path, retries=0, timeout_seconds=seconds)
            return name, _named(_TEMPLATE.decode(raw), name, f"GET {path}")
        except APIError as error:
            return (name, None) if error.is_not_found and name in error.message else None
        except (ClientError, UndecodableError):
            return None

    names = (entry.resource_claim_template_name for entry in pod.spec.resource_claims)
    wanted = list(dict.fromkeys(name for name in names if name))[:most]
    return dict(each for each in await asyncio.gather(*map(fetched, wanted)) if each is not None)


def _named(found: _Found, name: str, request: str) -> _Found:
    """The object, which must have its name: `{}` is no object. Raises `UndecodableError`."""
    if not name or found.metadata.name != name:
        raise UndecodableError(f"{request}: the answer is no {type(found).__name__} of an API server: no metadata.name")
    return found


# --- reading the cluster ----------------------------------------------------------------------------------------------


async def read_input(
    client: APIClient,
    served: Serving,
    with_groups: bool = False,
    with_templates: bool = False,
    with_priority_classes: bool = False,
) -> ClusterInput:
    """The whole cluster, as `input_from_files` has that of files. Raises `ClientError`.

    `with_templates`: of claims to devices, also if no pod of the cluster has such a claim.
    """
    notes: list[str] = []
    objects = await read_cluster(client, notes)
    missing, awaited = dict[str, str](), dict[str, str]()
    groups = await read_groups(client, served, notes, missing) if with_groups else []
    objects = await read_topologies(client, served, objects, notes, awaited) if with_groups else objects
    if with_templates or (with_groups and any(pod.names_claim_templates for pod in objects.pods)):
        objects = await read_claim_templates(client, objects, notes)
    classes = await read_priority_classes(client, notes) if with_priority_classes else {}
    found = ClusterInput(objects, served, LIVE, notes, groups, classes, Absent(missing, awaited))
    found.follow_pods()
    return found


async def read_cluster(client: APIClient, notes: list[str]) -> ClusterObjects:
    """All objects that plugins read; what may not be read gets a note. Raises `ClientError` without nodes and pods."""
    objects: dict[str, Any] = {kind.plural: tuple(await _list(client, kind, notes)) for kind in KINDS.values()}
    return ClusterObjects(**objects)


async def read_claim_templates(client: APIClient, objects: ClusterObjects, notes: list[str]) -> ClusterObjects:
    """The cluster with its templates of claims, which few questions need."""
    templates: Any = tuple(await _list(client, RESOURCE_CLAIM_TEMPLATES, notes))
    return msgspec.structs.replace(objects, resourceclaimtemplates=templates)


async def read_priority_classes(client: APIClient, notes: list[str]) -> dict[str, Any]:
    """By name; where they may not be read, a note says so."""
    try:
        return listed_classes(msgspec.json.decode(await client.get(PRIORITY_CLASSES_PATH, retries=_RETRIES)))
    except APIError as error:
        if not (error.is_forbidden or error.is_not_found):
            raise
        notes.append(f"priorityclasses are left out, and new pods may have those alone that pods have: {error}")
        return {}


async def read_groups(
    client: APIClient, served: Serving, notes: list[str], missing: dict[str, str] | None = None
) -> list[GroupDefinition]:
    """The groups of all APIs that are followed.

    `missing`: gets the kinds that the server does not have and the groups that cannot be read, as `why_missing` takes
    them.
    """
    found = []
    for api in group_apis(served.config):
        bad: dict[str, str] = {}
        try:
            found += [api.definition_of(group) for group in await _pages(client, api.kind, notes, bad)]
        except APIError as error:
            if not (error.is_forbidden or error.is_not_found):
                raise
            if error.is_not_found and missing is not None:
                missing[api.kind.resource] = NOT_SERVED
            notes.append(f"{api.kind.resource} are left out, and the answer may be wrong where they matter: {error}")
        if missing is not None:
            missing |= {f"{api.kind.resource} {key}": unreadable(error) for key, error in bad.items()}
    return found


async def read_topologies(
    client: APIClient, served: Serving, objects: ClusterObjects, notes: list[str], awaited: dict[str, str] | None = None
) -> ClusterObjects:
    """The cluster with the objects that name levels of its topology, of the projects that are followed.

    `awaited`: gets the kinds that the server does not have, by resource, with the reason.
    """
    kinds = topology_kinds(served.config)
    found: dict[str, Any] = {kind.plural: tuple(await _list(client, kind, notes, awaited)) for kind in kinds}
    return msgspec.structs.replace(objects, **found)


async def _list(
    client: APIClient, kind: Kind, notes: list[str], awaited: dict[str, str] | None = None
) -> list[KubeObject]:
    """All readable objects of a kind; adds a note for each unreadable object, or for the kind.

    `awaited`: as for `read_topologies`.
    """
    try:
        return await _pages(client, kind, notes)
    except APIError as error:
        if kind in (NODES, PODS) or not (error.is_forbidden or error.is_not_found):
            raise
        if kind is DEVICE_TAINT_RULES and error.is_not_found:
            return []  # servers before 1.37 have no such rules
        if awaited is not None and error.is_not_found:
            awaited[kind.resource] = not_served(kind)
        notes.append(f"{kind.plural} are left out, and the answer may be wrong where they matter: {error}")
        return []


async def _pages(
    client: APIClient, kind: Kind, notes: list[str], unread: dict[str, str] | None = None
) -> list[KubeObject]:
    """`unread`: gets by key what is wrong with objects that cannot be decoded."""
    decoder: ListDecoder[Any] = ListDecoder(kind)
    params = {"limit": str(PAGE_SIZE)}
    if kind.field_selector:
        params["fieldSelector"] = kind.field_selector
    objects: list[KubeObject] = []
    async for page in decoder.pages(partial(client.get, retries=_RETRIES), kind.path, params):
        notes.extend(f"{kind.plural} {bad.key} is left out: {bad.error}" for bad in page.undecodable)
        if unread is not None:
            unread |= {bad.key: bad.error for bad in page.undecodable}
        for found in page.items:
            problem = unreadable_quantity(found) if isinstance(found, (Node, Pod)) else ""
            if problem:
                notes.append(f"{kind.plural} {found.key} is left out: {problem}")
            else:
                objects.append(found)
    return objects
