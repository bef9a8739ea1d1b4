"""`kubectl kscheduler why podgroup/NAME`: a group is asked about by one of its members, so one is looked for."""

import argparse
import asyncio
from functools import partial
from typing import Any, Final

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS
from kscheduler.cli.asking_flags import namespace_of
from kscheduler.client.access.connection import load_connection
from kscheduler.client.rest import APIClient
from kscheduler.client.watch import ListDecoder
from kscheduler.explain.questions.live import UnknownPodError
from kscheduler.informers.progress import PAGE_SIZE
from kscheduler.state.pod_groups.group_apis import KUBERNETES, OTHER_APIS
from kscheduler.whatif.scenario import ScenarioError

_APIS: Final = (KUBERNETES, *OTHER_APIS.values())
GROUP_PREFIXES: Final = ("podgroup", "podgroups", "pg")


def group_in(argument: str) -> str:
    """The NAME of `podgroup/NAME`; empty: the argument names a pod."""
    prefix, _, name = argument.partition("/")
    return name if prefix in GROUP_PREFIXES and "/" not in name else ""


def member_of(args: argparse.Namespace, group: str) -> str:
    """`NAMESPACE/POD` of a member, of one that waits if there is any. Raises `ScenarioError`, `ClientError`."""
    if args.source is not None:
        raise ScenarioError(f"--from: name a member of pod group {group}, and not the group")
    namespace = namespace_of(args)
    members = asyncio.run(_members(args, namespace, group))
    if not members:
        raise UnknownPodError(f"no pod of namespace {namespace} names pod group {group}; -n gives another namespace")
    waiting = [pod for pod in members if not (pod.spec.node_name or pod.is_terminal)]
    return (waiting or members)[0].key


async def _members(args: argparse.Namespace, namespace: str, group: str) -> list[Pod]:
    connection = await load_connection(master=args.master, kubeconfig=args.kubeconfig, context=args.context)
    decoder: ListDecoder[Any] = ListDecoder(PODS)
    found: list[Pod] = []
    async with APIClient(connection) as client:
        path, get = PODS.object_path("", namespace).rstrip("/"), partial(client.get, retries=1)
        async for page in decoder.pages(get, path, {"limit": str(PAGE_SIZE)}):
            found += [pod for pod in page.items if any(api.name_in(pod) == group for api in _APIS)]
    return found
