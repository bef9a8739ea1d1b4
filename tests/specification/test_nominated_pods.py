"""Wherever pods are nominated, a node passes if the per-node rules pass with its nominated pods and without them."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Pod
from kscheduler.config.plugin_args import NodeResourcesFitArgs
from kscheduler.framework.handle import Handle
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.node_ports import NodePorts
from kscheduler.plugins.node_resources_fit import NodeResourcesFit
from kscheduler.plugins.node_unschedulable import NodeUnschedulable
from kscheduler.scheduling.cycle.schedule import find_feasible
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache
from tests.builders import make_pod
from tests.scheduling.plugins_for_tests import profile
from tests.specification import cases, rules
from tests.specification.clusters import NODE_NAMES, Cluster, clusters, pods
from tests.specification.rules import LoggedFailure, Place, Rule

HANDLE = Handle(None, None, None)  # type: ignore[arg-type]  # these plugins reach for nothing outside the table
examples = cases.examples("nominated")

RULES: Mapping[str, Rule] = {
    "NodeUnschedulable": rules.node_unschedulable,
    "NodePorts": rules.node_ports,
    "NodeResourcesFit": rules.node_resources_fit(NodeResourcesFitArgs()),
}


def evaluators() -> Profile:
    return profile(NodeUnschedulable(None, HANDLE), NodePorts(None, HANDLE), NodeResourcesFit(None, HANDLE))


@st.composite
def nominated(draw: st.DrawFn) -> list[Pod]:
    """Pending pods with priorities, each nominated to some node, which may not be there."""
    found = []
    for number in range(draw(st.integers(0, 3))):
        pod = draw(pods(f"nominated-{number}"))
        status = {"nominatedNodeName": draw(st.sampled_from([*NODE_NAMES, "no-such-node"]))}
        made = make_pod(f"nominated-{number}", status=status, priority=draw(st.integers(0, 2)))
        made.spec = with_priority(pod, made.spec.priority or 0).spec
        found.append(made)
    return found


def with_priority(pod: Pod, priority: int) -> Pod:
    fields = {name: getattr(pod.spec, name) for name in pod.spec.__struct_fields__}
    return Pod(metadata=pod.metadata, spec=type(pod.spec)(**{**fields, "priority": priority}), status=pod.status)


def first_verdict(pod: Pod, place: Place) -> tuple[str, LoggedFailure]:
    """The first rule that rejects the node, in order."""
    for name, rule in RULES.items():
        verdict = rule(pod, place)
        if verdict is not None:
            return name, verdict
    return "", None


def expected_verdict(pod: Pod, place: Place, expected: list[Pod]) -> tuple[str, LoggedFailure]:
    """With those who are expected there first; only if that passes, without them."""
    rivals = [
        one
        for one in expected
        if one.status.nominated_node_name == place.node.metadata.name
        and (one.spec.priority or 0) >= (pod.spec.priority or 0)
    ]
    crowded = first_verdict(pod, Place(place.node, (*place.pods, *rivals)))
    return crowded if crowded[1] is not None else first_verdict(pod, place)


def verdicts(cache: Cache, pod: Pod) -> dict[str, tuple[str, LoggedFailure]]:
    record = find_feasible(evaluators(), PodInfo(pod), cache)
    found: dict[str, tuple[str, LoggedFailure]] = dict.fromkeys(record.feasible_names(), ("", None))
    for name, status in record.diagnosis.by_node():
        assert name not in found, "a node is charged once"
        found[name] = (status.plugin, (status.code.value == 2, frozenset(status.reasons)))
    return found


@examples
@given(clusters(), pods("judged"), st.integers(0, 2), nominated())
def test_every_node_is_judged_with_and_without_its_nominated_pods(
    cluster: Cluster, pod: Pod, priority: int, expected: list[Pod]
) -> None:
    judged = with_priority(pod, priority)
    for one in expected:
        cluster.cache.nominator.add(PodInfo(one))
    specified = {
        place.node.metadata.name: expected_verdict(judged, place, expected) for place in cluster.places().values()
    }
    assert verdicts(cluster.cache, judged) == specified
    cases.judged("nominated")


@examples
@given(clusters(), pods("judged"), st.sampled_from(NODE_NAMES), nominated())
def test_a_pod_whose_nominated_node_passes_goes_there_and_else_wherever_it_fits(
    cluster: Cluster, pod: Pod, name: str, expected: list[Pod]
) -> None:
    for one in expected:
        cluster.cache.nominator.add(PodInfo(one))
    everywhere = verdicts(cluster.cache, pod)
    own = make_pod("judged", status={"nominatedNodeName": name})
    own.spec = pod.spec
    found = verdicts(cluster.cache, own)
    fits = name in everywhere and everywhere[name] == ("", None)
    assert found == ({name: ("", None)} if fits else everywhere)
