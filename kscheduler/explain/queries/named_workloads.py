"""A workload that is named in place of a pod, as kubectl has it (`deployment/web`): one of its pods is asked about.

Which one: the first that waits for a node, since that is whom people ask about, else the first. The answer says
which. A Deployment's pods are those of all its ReplicaSets; a CronJob's those of Jobs with its name and a number,
since no scheduler reads Jobs.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, REPLICA_SETS, Kind
from kscheduler.api.workloads import ReplicaSet
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.lists import ListDecoder
from kscheduler.client.rest import APIClient
from kscheduler.explain.queries.named_groups import member_to_explain
from kscheduler.informers.progress import PAGE_SIZE
from kscheduler.scenario.owners import owners_in

# Kind and name.
Workload = tuple[str, str]


def pods_of(
    pods: Iterable[Pod], namespace: str, workload: Workload, replica_sets: Iterable[ReplicaSet] = ()
) -> list[Pod]:
    """The pods that a workload has, in their order."""
    kind, name = workload
    top = owners_in(replica_sets)
    of_its_jobs = re.compile(rf"{re.escape(name)}-\d+")

    def is_of_it(pod: Pod) -> bool:
        owner = pod.metadata.controller
        if owner is None or pod.metadata.namespace != namespace:
            return False
        if kind == "CronJob" and owner.kind == "Job":
            return of_its_jobs.fullmatch(owner.name) is not None
        return workload in ((owner.kind, owner.name), top(pod))

    return list(filter(is_of_it, pods))


def which_of(pods: Sequence[Pod], chosen: Pod, namespace: str, workload: Workload) -> str:
    """A note on the pod that the answer is about."""
    kind, name = workload
    waits = not (chosen.spec.node_name or chosen.is_terminal or chosen.metadata.deletion_timestamp)
    count = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
    which = (
        "the first of them that waits for a node" if waits else "none of them waits for a node, so this is the first"
    )
    return f"{kind} {namespace}/{name} has {count}; the answer is about {chosen.key}: {which}"


def no_pods(namespace: str, workload: Workload) -> str:
    """Why nothing can be said of a workload."""
    return f"{workload[0]} {namespace}/{workload[1]} has no pods"


async def live_pod_of(client: APIClient, namespace: str, workload: Workload) -> tuple[Pod, str]:
    """The pod to ask about, with a note that says which it is. Raises `ClientError`, also if there is none."""
    replica_sets: list[ReplicaSet] = []
    if workload[0] == "Deployment":
        try:
            replica_sets = await _listed(client, REPLICA_SETS, namespace)
        except APIError as error:
            if not error.is_forbidden:
                raise  # else they are told by their names
    pods = pods_of(await _listed(client, PODS, namespace), namespace, workload, replica_sets)
    chosen = member_to_explain(pods)
    if chosen is None:
        raise ClientError(f"{no_pods(namespace, workload)}; -n gives another namespace")
    return chosen, which_of(pods, chosen, namespace, workload)


async def _listed(client: APIClient, kind: Kind, namespace: str) -> list[Any]:
    decoder: ListDecoder[Any] = ListDecoder(kind)
    path, get = kind.object_path("", namespace).rstrip("/"), partial(client.get, retries=1)
    found: list[Any] = []
    async for page in decoder.pages(get, path, {"limit": str(PAGE_SIZE)}):
        found += page.items
    return found
