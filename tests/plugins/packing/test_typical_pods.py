"""The mix of typical pods: what one pod may do to it, how much of it is kept, and what is worked out for it."""

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kscheduler.aio.tasks import finished
from kscheduler.api.codec import convert
from kscheduler.config.plugin_args import FragmentationAwareArgs
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.packing import typical_pods
from kscheduler.plugins.packing.device_columns import MAX_DEVICES, DeviceDemand
from kscheduler.plugins.packing.fragmentation_aware import FragmentationAware
from kscheduler.plugins.packing.typical_pods import most_frequent
from tests.builders import make_node, make_pod
from tests.plugins.dynamic_resources.stage import Stage, claim, device_class, devices_of, exactly, user
from tests.plugins.packing.test_claimable_devices import GPU, asks, counted, points, shared, stage_of


def learned(stage: Stage) -> FragmentationAware:
    plugin = FragmentationAware(None, stage.handle)
    asyncio.run(plugin.refresh())
    return plugin


def with_one_more(**requests: str) -> dict[str, int]:
    """The points of an ordinary pod, where the mix is of eight like it and one that requests this."""
    stage = Stage(nodes=0)
    for name, cpu in (("n0", "64"), ("n1", "16"), ("n2", "4"), ("full", "1")):
        stage.cache.add_node(make_node(name, cpu=cpu, **{GPU: "4"}))
    for number in range(8):
        stage.cache.add_pod(make_pod(f"p{number}", uid=f"u{number}", node="full", requests={"cpu": "4", GPU: "1"}))
    stage.cache.add_pod(make_pod("one", uid="one", node="full", requests=requests))
    found = points(learned(stage), stage, make_pod(requests={"cpu": "4", GPU: "1"}))
    return {name: found[name] for name in ("n0", "n1", "n2")}


def test_a_pod_that_asks_for_more_than_any_node_has_counts_as_one_that_asks_for_a_little_more() -> None:
    assert with_one_more(cpu="9E", **{GPU: "1"}) == with_one_more(cpu="64001m", **{GPU: "1"})
    assert with_one_more(cpu="4", **{GPU: "9E"}) == with_one_more(cpu="4", **{GPU: "65"})
    assert with_one_more(cpu="9E", **{GPU: "9E"}) == with_one_more(cpu="64001m", **{GPU: "65"})


def test_claims_for_more_devices_than_a_node_may_have_count_as_one_more_than_that() -> None:
    requests = [exactly(f"r{number}", count=2**63 - 1) for number in range(8)]
    stage = stage_of(devices_of("n0", "d0"))
    stage.put(claim("greedy", *requests))
    stage.cache.add_pod(user("greedy", node="n0"))
    assert learned(stage)._typical.devices.tolist() == [MAX_DEVICES + 1]


def test_a_mix_that_is_given_may_have_any_amount() -> None:
    stage = stage_of(nodes=0)
    stage.cache.add_node(make_node("n0", cpu="64", **{GPU: "4"}))
    whole = {"requests": {"cpu": "4", GPU: "1"}, "count": 1_000_000}
    tree = {"typicalPods": [whole, {"requests": {"cpu": "9E", GPU: "9E"}, "count": 1_000_000}]}
    typical = FragmentationAware(convert(tree, FragmentationAwareArgs), stage.handle)._typical
    assert typical.cpu_per_milli > 0
    assert typical.devices.tolist() == [1, 65]


class Unread(str):
    """A long text that should not be made."""

    __slots__ = ()

    def __repr__(self) -> str:
        raise AssertionError("its text was made")


def test_the_text_of_a_shape_is_made_only_for_those_of_equal_number_and_size() -> None:
    numbers: Counter[Any] = Counter({(1, 1, 1, Unread("a")): 3, (1, 1, 1, Unread("b")): 2, (1, 1, 2, Unread("c")): 2})
    assert [shape[-1] for shape in finished(most_frequent(numbers))] == ["a", "c", "b"]
    equal: Counter[Any] = Counter({(1, 1, 1, "a"): 3, (1, 1, 1, "b"): 2, (1, 1, 1, "c"): 2})
    pauses = most_frequent(equal)
    assert [shape[-1] for shape in finished(pauses)] == ["a", "c", "b"]


def test_others_run_while_texts_are_made() -> None:
    pauses = most_frequent(Counter({(1, 1, 1, str(number)): 1 for number in range(50)}))
    assert sum(1 for _ in pauses) == 50


def test_pods_that_all_differ_are_counted_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typical_pods, "MOST_KEPT", 8)
    stage = Stage(nodes=1)
    frequent = [make_pod(f"q{number}", uid=f"q{number}", node="n0", requests={"cpu": "9"}) for number in range(5)]
    others = [make_pod(f"p{n}", uid=f"p{n}", node="n0", requests={"cpu": f"{n}m"}) for n in range(1, 90)]
    for pod in (*frequent, *others):
        stage.cache.add_pod(pod)
    mix = learned(stage)._typical.mix
    assert len(mix) <= 8
    assert max(mix, key=mix.__getitem__).cpu == 4001, "more than the node has counts as a little more"
    assert max(mix.values()) == 5


def test_the_usual_device_is_counted_once_for_all_pods_and_again_when_devices_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = stage_of(devices_of("n0", shared("d0")), devices_of("n1", shared("d0")), devices_of("n2", "d0"), nodes=3)
    stage.put(claim("c0", asks("10Gi")))
    devices, pod = counted(stage), PodInfo(user("c0"))
    counts: list[int] = []

    def noted(found: Any, real: Any = np.bincount) -> Any:
        counts.append(len(found))
        return real(found)

    monkeypatch.setattr(np, "bincount", noted)
    assert [devices.usual_demand(pod) for _ in range(5)] == [DeviceDemand(1, 250)] * 5
    assert counts == [3]
    for name in ("n0", "n1"):
        stage.put(devices_of(name, shared("d0", memory="20Gi")))
    assert [devices.usual_demand(pod) for _ in range(5)] == [DeviceDemand(1, 500)] * 5
    assert counts == [3, 3]
    stage.put(device_class(extendedResourceName=GPU, selectors=[{"cel": {"expression": "false"}}]))
    assert devices.usual_demand(pod) == DeviceDemand()
