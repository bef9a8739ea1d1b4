"""Pods with one spec take over what was worked out of the first, and nothing else."""

from typing import Any

import pytest

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.classes.pod_templates import PodTemplates
from tests.builders import pod_info

SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
    "matchLabelKeys": ["version"],
}
RESIZED = {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}]}


def worked_out(pod: PodInfo) -> tuple[Any, ...]:
    spec = pod.requests, pod.accounted, pod.nonzero_requests, pod.nonzero_accounted, pod.host_ports, pod.images
    return (*spec, pod.node_selector, pod.required_node_terms, pod.affinity_terms, pod.spread_by_action)


def test_the_second_pod_takes_over_what_the_first_has_worked_out() -> None:
    templates = PodTemplates()
    one, other = (pod_info(name, requests={"cpu": "1"}, nodeSelector={"disk": "ssd"}) for name in ("one", "other"))
    template = templates.of(one)
    reported = worked_out(one)
    assert templates.of(other) is template
    assert all(mine is its for mine, its in zip(worked_out(other), reported, strict=True) if its is not None)
    assert (one.is_like_another, other.is_like_another) == (False, True)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"requests": {"cpu": "2"}}, id="request"),
        pytest.param({"namespace": "other"}, id="namespace"),
        pytest.param({"nodeSelector": {"disk": "hdd"}}, id="selector"),
        pytest.param({"status": RESIZED}, id="resize in flight"),
        pytest.param({"labels": {"version": "2"}}, id="label that its spread constraint reads"),
    ],
)
def test_a_pod_that_differs_is_worked_out_by_itself(fields: dict[str, Any]) -> None:
    templates = PodTemplates()
    same: dict[str, Any] = {"labels": {"version": "1"}, "topologySpreadConstraints": [SPREAD]}
    first = pod_info("one", **same)
    templates.of(first)
    worked_out(first)
    pod = pod_info("other", **{**same, **fields})
    templates.of(pod)
    assert worked_out(pod) == worked_out(PodInfo(pod.pod))


def test_pods_that_differ_in_the_names_of_their_claims_share_a_template() -> None:
    templates = PodTemplates()
    pods = [pod_info(name, requests={"cpu": "1"}, volumes=[with_claim(name)]) for name in ("db-0", "db-1")]
    template = templates.of(pods[0])
    reported = worked_out(pods[0])
    assert template is not None
    assert templates.of(pods[1]) is template
    assert all(mine is its for mine, its in zip(worked_out(pods[1]), reported, strict=True) if its is not None)
    assert pods[1].pod.spec.volumes != pods[0].pod.spec.volumes


def with_claim(name: str) -> dict[str, Any]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


def test_specs_of_their_own_do_not_pile_up() -> None:
    templates = PodTemplates()
    for number in range(50):
        templates.of(pod_info(f"pod-{number}", nodeSelector={"host": f"{number}"}))
    assert len(templates) <= 4


def test_four_specs_that_look_alike_at_a_glance_are_remembered() -> None:
    templates = PodTemplates()
    pods = [pod_info(str(number), requests={"cpu": "1"}, nodeSelector={"a": str(number)}) for number in range(4)]
    first = [templates.of(pod) for pod in pods]
    assert [templates.of(PodInfo(pod.pod)) for pod in pods] == first


def test_pods_without_an_owner_find_their_template_among_many_that_keep_apart_in_other_ways() -> None:
    """As bare pods of a hundred applications, in turn: by their container alone they would push each other out."""
    templates = PodTemplates()

    def of_application(number: int, name: str) -> PodInfo:
        apart = {"labelSelector": {"matchLabels": {"app": f"a{number}"}}, "topologyKey": "kubernetes.io/hostname"}
        terms = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
        return pod_info(f"a{number}-{name}", affinity={"podAntiAffinity": terms})

    firsts = [templates.of(of_application(number, "one")) for number in range(100)]
    seconds = [templates.of(of_application(number, "two")) for number in range(100)]
    assert all(first is second for first, second in zip(firsts, seconds, strict=True))
    assert len(templates) == 100
