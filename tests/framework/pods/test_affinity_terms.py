"""Terms are parsed once for pods that share an affinity, and are always those of the pod that is asked about."""

from kscheduler.api.core import Affinity, Pod, PodAffinity, PodAffinityTerm, PodSpec
from kscheduler.api.meta import ObjectMeta
from kscheduler.framework.pods.affinity_terms import affinity_terms


def near(topology_key: str) -> Affinity:
    term = PodAffinityTerm(topology_key=topology_key)
    return Affinity(pod_affinity=PodAffinity(required_during_scheduling_ignored_during_execution=(term,)))


def pod(affinity: Affinity, namespace: str = "default") -> Pod:
    return Pod(metadata=ObjectMeta(name="pod", namespace=namespace), spec=PodSpec(affinity=affinity))


def test_pods_that_share_an_affinity_share_its_terms() -> None:
    shared = near("zone")
    assert affinity_terms(pod(shared)) is affinity_terms(pod(shared))


def test_a_term_without_namespaces_means_those_of_each_pod() -> None:
    shared = near("zone")
    meant = [affinity_terms(pod(shared, namespace)).required_affinity[0].match.namespaces for namespace in ("a", "b")]
    assert meant == [{"a"}, {"b"}]


def test_an_affinity_that_comes_when_many_others_have_gone_is_not_taken_for_one_of_them() -> None:
    keys = [f"key-{number}" for number in range(10_000)]  # more than are remembered; each has gone when the next comes
    assert [affinity_terms(pod(near(key))).required_affinity[0].topology_key for key in keys] == keys
