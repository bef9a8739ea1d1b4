"""Classes of pods: alike in everything that a plugin reads, or like no other."""

import gc
from dataclasses import replace
from typing import Any

import pytest

from kscheduler.assembly import profiles_over
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import NodeTable
from kscheduler.framework.plugin import UNSIGNABLE, Plugin, PreFilterResult, Source
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, unschedulable
from kscheduler.framework.traits import traits_of
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.classes.signatures import Signatures
from kscheduler.scheduling.profile import Profile
from kscheduler.state.cache import Cache
from tests.builders import pod_info
from tests.scheduling.plugins_for_tests import Looks, TurnsDown

JUDGES = ("pre_enqueue", "pre_filter", "filter", "post_filter")


def default_profile(cache: Cache) -> Profile:
    return profiles_over(cache, default_configuration("kscheduler"), registry())["kscheduler"]


@pytest.fixture
def cache() -> Cache:
    return Cache()


@pytest.fixture
def signatures(cache: Cache) -> Signatures:
    return Signatures({"kscheduler": default_profile(cache)}, cache.nominator)


def test_every_plugin_in_the_tree_that_judges_says_what_it_reads() -> None:
    evaluators = [
        plugin for plugin in default_profile(Cache()).instances if any(hasattr(plugin, one) for one in JUDGES)
    ]
    assert len(evaluators) > 10
    assert [plugin.name for plugin in evaluators if not traits_of(plugin).is_signed] == []


def test_pods_that_differ_in_name_and_uid_only_are_one_class(signatures: Signatures) -> None:
    one, other = (signatures.class_of(pod_info(name, labels={"app": "web"})) for name in ("one", "other"))
    assert one is not None
    assert one is other


TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
RUNNING = {"containerStatuses": [{"name": "main", "resources": {"requests": {"example.com/gpu": "1"}}}]}
DIFFERENT: dict[str, dict[str, Any]] = {
    "label": {"labels": {"app": "db"}},
    "namespace": {"namespace": "other"},
    "priority": {"priority": 1},
    "preemption policy": {"preemptionPolicy": "Never"},
    "request": {"requests": {"cpu": "2"}},
    "resource": {"requests": {"example.com/gpu": "1"}},
    "what it has already": {"status": RUNNING},
    "node selector": {"nodeSelector": {"disk": "ssd"}},
    "toleration": {"tolerations": [{"operator": "Exists"}]},
    "affinity to pods": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    "anti-affinity": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
    "spread": {"topologySpreadConstraints": [SPREAD]},
    "gate": {"schedulingGates": [{"name": "hold"}]},
    "host port": {"containers": [{"name": "main", "ports": [{"hostPort": 80}]}]},
    "disk": {"volumes": [{"name": "d", "iscsi": {"iqn": "q", "readOnly": True}}]},
    "feature": {"hostNetwork": True, "hostUsers": False},
}


@pytest.mark.parametrize("fields", DIFFERENT.values(), ids=DIFFERENT)
def test_what_a_plugin_or_the_scheduler_reads_reports_pods_apart(
    signatures: Signatures, fields: dict[str, Any]
) -> None:
    plain = signatures.class_of(pod_info("plain"))
    one, same = (signatures.class_of(pod_info(name, **fields)) for name in ("one", "same"))
    assert one is not None
    assert one is same
    assert one is not plain


@pytest.mark.parametrize(
    ("plugin", "are_alike"), [("DefaultPreemption", True), ("PodTopologySpread", False), ("InterPodAffinity", False)]
)
@pytest.mark.parametrize(
    "fields", [{"labels": {"pod-index": "1"}}, {"namespace": "other"}], ids=["its own label", "another namespace"]
)
def test_hints_answer_alike_for_pods_of_different_labels_where_none_reads_them(
    signatures: Signatures, plugin: str, fields: dict[str, Any], *, are_alike: bool
) -> None:
    rejectors = frozenset(("NodeResourcesFit", plugin))
    one, other = (
        signatures.hints_alike(pod_info(name, **each), rejectors) for name, each in (("a", {}), ("b", fields))
    )
    assert one is not None
    assert other is not None
    assert (one is other) is are_alike
    assert signatures.hints_alike(pod_info("b", priority=1, **fields), rejectors) is not other


ALONE: dict[str, dict[str, Any]] = {
    "it has a claim": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    "it has a volume made for it": {"volumes": [{"name": "v", "ephemeral": {}}]},
    "a node is nominated for it": {"status": {"nominatedNodeName": "n"}},
    "its requests cannot be read": {"requests": {"cpu": "much"}},
    "it is nobody's": {"schedulerName": "stranger"},
}


@pytest.mark.parametrize("fields", ALONE.values(), ids=ALONE)
def test_a_pod_may_be_like_no_other(signatures: Signatures, fields: dict[str, Any]) -> None:
    assert signatures.class_of(pod_info("p", **fields)) is None


def test_a_nomination_in_memory_sets_a_pod_apart_as_long_as_it_lasts(signatures: Signatures, cache: Cache) -> None:
    pod = pod_info("p")
    cache.nominator.nominate(pod, "n")
    assert signatures.class_of(pod) is None
    cache.nominator.remove(pod.uid)
    assert signatures.class_of(pod) is signatures.class_of(pod_info("other"))


class Signs(Looks):
    """A PreFilter that signs."""

    depends_on = (Source.ROW,)

    def sign(self, pod: PodInfo) -> object:
        return given if (given := self.signature) is not KeyError else pod.annotations["missing"]

    signature: Any = ()


class Unsettled(Signs):
    """It signs, and depends on who knows what."""

    depends_on = (Source.ANYTHING,)


def signing(signature: Any) -> Plugin:
    plugin = Signs("S")
    plugin.signature = signature
    return plugin


@pytest.mark.parametrize(
    ("plugin", "shares"),
    [
        pytest.param(signing("x"), True, id="signs"),
        pytest.param(signing(UNSIGNABLE), False, id="will not sign"),
        pytest.param(signing([]), False, id="signs with what cannot be compared"),
        pytest.param(signing(KeyError), False, id="fails"),
        pytest.param(Unsettled("U"), False, id="depends on anything"),
        pytest.param(Looks("L"), False, id="cannot sign"),
    ],
)
def test_one_plugin_that_cannot_sign_is_enough(cache: Cache, plugin: Any, shares: bool) -> None:
    profile = default_profile(cache)
    signatures = Signatures({"kscheduler": replace(profile, filter=(*profile.filter, plugin))}, cache.nominator)
    assert (signatures.class_of(pod_info("p")) is not None) is shares


class ReadsMore(Signs):
    """It took over `sign` from a plugin that looks at less."""

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable) -> PreFilterResult:
        return PreFilterResult(unschedulable("not so noted") if pod.annotations else SUCCESS)


class ReadsMoreAndSaysSo(ReadsMore):
    """It signs for what it reads besides."""

    def sign(self, pod: PodInfo) -> object:
        return frozenset(pod.annotations.items())


def test_a_plugin_that_judges_by_more_than_the_one_whose_signature_it_has_shares_nothing() -> None:
    """A fleet's own Fit, made of NodeResourcesFit, looks at an annotation: one pod's no was all its like's no."""
    assert traits_of(Signs("S")).is_signed
    assert not traits_of(ReadsMore("R")).is_signed
    assert traits_of(ReadsMoreAndSaysSo("R")).is_signed


def test_a_plugin_that_comes_after_the_cycle_need_not_sign(cache: Cache) -> None:
    """What it says is never shared."""
    profile = replace(default_profile(cache), score=(), permit=(TurnsDown("P"),))  # type: ignore[arg-type]
    assert Signatures({"kscheduler": profile}, cache.nominator).class_of(pod_info("p")) is not None


def test_a_class_that_nobody_refers_to_is_forgotten(signatures: Signatures) -> None:
    kept = [pod_info(f"p{number}", labels={"app": str(number)}) for number in range(5)]
    for pod in kept:
        signatures.class_of(pod)
    assert len(signatures) == 5
    del kept[1:], pod
    gc.collect()
    assert len(signatures) == 1
