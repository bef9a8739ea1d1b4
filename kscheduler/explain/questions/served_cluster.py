"""A cluster as the profiles see it that are asked about all of its pods or nodes."""

from typing import NamedTuple

from kscheduler.api.quantity import QuantityError
from kscheduler.assembly import group_apis
from kscheduler.explain.questions.serving import Serving
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.cache import Cache
from kscheduler.whatif.decide import cluster_cache, profiles_at, scenario_ports
from kscheduler.whatif.scenario import ClusterObjects


class ServedCluster(NamedTuple):
    """The state cache, and the profiles over it."""

    cache: Cache
    profiles: Profiles


def served_cluster(objects: ClusterObjects, served: Serving, where: str) -> ServedCluster:
    """Fill a cache from the objects, and build the profiles. Raises `ScenarioError`, which names `where`.

    Pods that wait for the node in their status are nominated there: others leave room for them.
    """
    cache = cluster_cache(objects, None, served.config.gates, where, group_apis(served.config), served.names)
    profiles = profiles_at(where, cache, served.config, served.registry, scenario_ports(objects))
    for pod in objects.pods:
        waits = not pod.spec.node_name and not pod.is_terminal and pod.spec.scheduler_name in profiles
        if waits and pod.status.nominated_node_name:
            try:
                cache.nominator.add(PodInfo(pod))
            except QuantityError:
                continue  # the reader of the objects has told of it
    return ServedCluster(cache, profiles)
