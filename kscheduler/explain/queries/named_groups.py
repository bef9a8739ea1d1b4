"""A pod group that is named in place of a pod: it is asked about by one of its members, so one is looked for."""

import dataclasses
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.client.lists import ListDecoder
from kscheduler.client.rest import APIClient
from kscheduler.explain.queries.explain_query import ExplainQuery, GroupExplainQuery
from kscheduler.explain.queries.live import UnknownPodError, live_query
from kscheduler.informers.progress import PAGE_SIZE
from kscheduler.scenario.serving import Serving
from kscheduler.state.group_apis import KUBERNETES, OTHER_APIS

_APIS: Final = (KUBERNETES, *OTHER_APIS.values())


def members_of(pods: Iterable[Pod], namespace: str, group: str) -> list[Pod]:
    """The pods that name the group, whatever API it belongs to."""
    return [
        pod for pod in pods if pod.metadata.namespace == namespace and any(api.name_in(pod) == group for api in _APIS)
    ]


def no_member(namespace: str, group: str) -> str:
    """Why nothing can be said of a group."""
    return f"no pod of namespace {namespace} names pod group {group}"


async def live_group_query(
    client: APIClient, namespace: str, group: str, served: Serving
) -> ExplainQuery | GroupExplainQuery:
    """About a group of the cluster, by the member to ask about. Raises as `live_query`.

    Members that have ended are counted: a gang that has finished lacks nobody.
    """
    members = await members_in_cluster(client, namespace, group)
    member = _member_among(members, namespace, group)
    query = await live_query(client, namespace, member.metadata.name, served, of_group=True)
    ended = tuple(pod for pod in members if pod.is_terminal)
    if not ended or not isinstance(query, GroupExplainQuery):
        return query
    scenario = query.scenario
    objects = msgspec.structs.replace(scenario.objects, pods=(*scenario.objects.pods, *ended))
    return dataclasses.replace(query, scenario=dataclasses.replace(scenario, objects=objects))


def _member_among(members: Sequence[Pod], namespace: str, group: str) -> Pod:
    member = member_to_explain(members)
    if member is None:
        raise UnknownPodError(f"{no_member(namespace, group)}; -n gives another namespace")
    return member


async def members_in_cluster(client: APIClient, namespace: str, group: str) -> list[Pod]:
    """All members, also those that have ended, which no scheduler reads. Raises `ClientError`."""
    decoder: ListDecoder[Any] = ListDecoder(PODS)
    path, get = PODS.object_path("", namespace).rstrip("/"), partial(client.get, retries=1)
    found: list[Pod] = []
    async for page in decoder.pages(get, path, {"limit": str(PAGE_SIZE)}):
        found += members_of(page.items, namespace, group)
    return found


def member_to_explain(members: Sequence[Pod]) -> Pod | None:
    """A pod of a group or a workload that waits, if there is any. `None`: there are no pods."""
    waiting = [pod for pod in members if not (pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp)]
    return next(iter(waiting or members), None)
