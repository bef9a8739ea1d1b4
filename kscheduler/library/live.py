"""A cluster that is read once from its API server, as `kscheduler simulate` and `explain` read it."""

from os import PathLike, fspath

from kscheduler.client.access.connection import load_connection
from kscheduler.client.errors import NetworkError, NotSentError, StalledError
from kscheduler.client.rest import APIClient
from kscheduler.explain.queries.live import read_input
from kscheduler.library.configured import Schedulers
from kscheduler.scenario.cluster_input import ClusterInput
from kscheduler.scenario.servers_version import by_the_servers_version


async def live_input(kubeconfig: str | PathLike[str], context: str, schedulers: Schedulers) -> ClusterInput:
    """All objects that the rules read. Raises what `raising_cluster_error` turns into `ClusterError`."""
    connection = await load_connection(kubeconfig=fspath(kubeconfig), context=context, named_by="kubeconfig=")
    try:
        async with APIClient(connection) as client:
            served = await by_the_servers_version(
                client, schedulers.serving(), schedulers.read_as, schedulers.version, "version="
            )
            found = await read_input(client, served, with_groups=True, with_priority_classes=True)
    except (NotSentError, StalledError) as failure:
        advice = "kubeconfig= or context= takes another"
        raise NetworkError(f"{failure}; the cluster is that of {connection.description}: {advice}") from failure
    found.leave_out_unreadable()
    return found
