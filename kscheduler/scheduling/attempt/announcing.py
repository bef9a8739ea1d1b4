"""Writing the chosen node to a pod's status before it is bound, where a cluster autoscaler can see it."""

from kscheduler.client.errors import APIError, ClientError
from kscheduler.logs import get_logger
from kscheduler.scheduling.attempt.surroundings import Attempt, Surroundings

_log = get_logger("attempt")


async def announce(context: Surroundings, attempt: Attempt) -> None:
    """Write the node, if the feature gate is on. The pod is bound even if that fails."""
    announcer, pod = context.announcer, attempt.queued.pod
    if announcer is None:
        return
    context.failures.withdraw(pod.uid)
    try:
        await announcer.patch_pod_status(pod.pod, None, attempt.node_name)
    except ClientError as failure:
        if isinstance(failure, APIError) and failure.is_not_found:
            return  # the pod was deleted: the next step will find that out
        _log.warning("pod_not_announced", pod=pod.key, node=attempt.node_name, err=str(failure))
