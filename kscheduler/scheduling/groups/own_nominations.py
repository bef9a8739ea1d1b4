"""The nominations of members, while their group is being tried.

kube-scheduler looks up what a nominated pod requests in its queue, and members that are being tried are not there: it
finds a pod without requests, labels and priority. So members with a priority above 0 do not leave room for each other
at all, and others leave room for one more pod, however small. That is sensible: a member goes to its own nominated node
first, and the others may share out the rest in another way than the last attempt did.

A member's own nomination is as it was; it is counted with its requests again as soon as the member is requeued.
"""

from collections.abc import Iterable

from kscheduler.api.core import Pod, PodSpec
from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.nominations.nominator import NominatedPods


def do_not_wait_for_each_other(nominator: NominatedPods, members: Iterable[PodInfo]) -> None:
    """Let the nominations of the members stand for pods without requests, until each is nominated anew."""
    for member in members:
        node_name = nominator.nominated_node(member)
        if node_name:
            nominator.nominate(_without_requests(member.pod), node_name)


def _without_requests(pod: Pod) -> PodInfo:
    meta = ObjectMeta(name=pod.metadata.name, namespace=pod.metadata.namespace, uid=pod.metadata.uid)
    return PodInfo(Pod(metadata=meta, spec=PodSpec(scheduling_group=pod.spec.scheduling_group)))
