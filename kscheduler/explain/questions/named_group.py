"""A pod group that is named in place of a pod: it is asked about by one of its members, so one is looked for."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.client.lists import ListDecoder
from kscheduler.client.rest import APIClient
from kscheduler.explain.questions.live import UnknownPodError
from kscheduler.informers.progress import PAGE_SIZE
from kscheduler.state.pod_groups.group_apis import KUBERNETES, OTHER_APIS

_APIS: Final = (KUBERNETES, *OTHER_APIS.values())


def members_of(pods: Iterable[Pod], namespace: str, group: str) -> list[Pod]:
    """The pods that name the group, whatever API it belongs to."""
    return [
        pod for pod in pods if pod.metadata.namespace == namespace and any(api.name_in(pod) == group for api in _APIS)
    ]


def member_to_ask(members: Sequence[Pod]) -> Pod | None:
    """A member that waits, if there is any: it is explained with its group. `None`: there are no members."""
    waiting = [pod for pod in members if not (pod.spec.node_name or pod.is_terminal or pod.metadata.deletion_timestamp)]
    return next(iter(waiting or members), None)


def no_member(namespace: str, group: str) -> str:
    """Why nothing can be said of a group."""
    return f"no pod of namespace {namespace} names pod group {group}"


async def member_in_cluster(client: APIClient, namespace: str, group: str) -> Pod:
    """The member to ask about. Raises `UnknownPodError`, `ClientError`."""
    decoder: ListDecoder[Any] = ListDecoder(PODS)
    path, get = PODS.object_path("", namespace).rstrip("/"), partial(client.get, retries=1)
    found: list[Pod] = []
    async for page in decoder.pages(get, path, {"limit": str(PAGE_SIZE)}):
        found += members_of(page.items, namespace, group)
    member = member_to_ask(found)
    if member is None:
        raise UnknownPodError(f"{no_member(namespace, group)}; -n gives another namespace")
    return member
