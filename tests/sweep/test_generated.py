"""Generated pods and gangs: what arrives depends on the seed alone, and a gang runs as a whole or not at all."""

import json
import pickle
from collections import Counter

import msgspec
import pytest

from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL
from kscheduler.framework.cluster.topology_request import REQUIRED
from kscheduler.recorder.alternatives.free_run import ExternalChange, FreeRun
from kscheduler.sweep.engines.indexed_job import ShippedRuns
from kscheduler.sweep.generated import generated_run
from kscheduler.sweep.policies import configured, default_profile
from kscheduler.sweep.run_spec import (
    GeneratedGangs,
    GeneratedNodes,
    GeneratedPods,
    GeneratedWorkload,
    PlayedPolicy,
)
from kscheduler.sweep.running import run
from tests.sweep.sweeps import DEFAULT, GPU, SHOP, spec

replace = msgspec.structs.replace

# Gangs and pods that fill twelve CPUs again and again; gangs of twenty never fit.
TEAM = GeneratedWorkload(
    "team",
    (GeneratedNodes(3, {"cpu": "4"}, zones=("a", "b", "c")),),
    (GeneratedPods(2, {"cpu": "1"}),),
    count=40,
    arrival_seconds=10.0,
    life_seconds=40.0,
    gpu=GPU,
    gangs=(GeneratedGangs(1, {"cpu": "1"}, members=(4, 8)), GeneratedGangs(1, {"cpu": "1"}, members=(20,))),
)


@pytest.mark.parametrize(
    ("seed", "placements", "queue_seconds"),
    [
        (1, "f6d969befe36f2234dbd1cca709c5b02", 1.2880756500000001),
        (2, "42dcd66d28fd2016a6029db9a1513ec3", 2.802504025),
        (3, "24330b18f16b77ea1d82a9e311c770ef", 0.0),
    ],
    ids=["1", "2", "3"],
)
def test_draws_without_gangs_are_as_recorded_before_there_were_any(
    seed: int, placements: str, queue_seconds: float
) -> None:
    row = run(spec(workload=SHOP, seed=seed))
    assert row.placements == placements
    assert row.queue_seconds_mean == pytest.approx(queue_seconds)
    assert (row.gangs, row.gangs_waiting) == (None, None)


def test_gangs_have_a_part_in_the_key_and_go_with_the_run() -> None:
    with_gangs = spec(workload=TEAM)
    larger = replace(TEAM, gangs=(GeneratedGangs(1, {"cpu": "1"}, members=(5,)),))
    without = replace(TEAM, gangs=())
    assert len({spec(workload=each).key for each in (TEAM, larger, without)}) == 3
    specs = [with_gangs, spec(workload=without)]
    assert pickle.loads(pickle.dumps(specs)) == specs
    assert msgspec.json.decode(msgspec.json.encode(ShippedRuns.of(specs)), type=ShippedRuns).specs() == specs


@pytest.mark.parametrize("seed", [1, 2])
def test_a_gang_runs_as_a_whole_and_ends_at_once_at_its_time(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    apply_external = FreeRun.apply_external
    sizes = Counter[str]()
    whole = set[str]()
    late = list[ExternalChange]()

    def checked(self: FreeRun, change: ExternalChange, *, is_last: bool = True) -> None:
        if change.micros < self.clock.micros:
            late.append(change)
        apply_external(self, change, is_last=is_last)
        if is_last:
            there, on_nodes = Counter[str](), Counter[str]()
            for pod in self.pods():
                gang = pod.metadata.labels.get(SCHEDULER_PLUGINS_LABEL, "")
                there[gang] += 1
                on_nodes[gang] += bool(pod.spec.node_name)
            for gang, count in there.items():
                assert not gang or sizes.setdefault(gang, count) == count, f"{gang} came or went in part"
                assert not gang or on_nodes[gang] in (0, count), f"{gang} runs in part"
                whole.update({gang} if gang and on_nodes[gang] else ())

    monkeypatch.setattr(FreeRun, "apply_external", checked)
    row = run(spec(workload=TEAM, seed=seed))
    assert row.error == ""
    assert late == [], "an end is not put off by flushes of the queue"
    assert len(whole) == (row.gangs or 0) - (row.gangs_waiting or 0) > 2
    assert set(sizes.values()) == {4, 8, 20}
    never = Counter(sizes.values())[20]
    assert (row.gangs, row.gangs_waiting, row.waiting) == (len(sizes), never, 20 * never)
    assert row.pods == (row.waiting or 0) + (row.placed or 0)


def test_a_gang_of_a_policy_with_other_groups_is_a_gang() -> None:
    policies = [
        PlayedPolicy("p", configuration=json.dumps({**default_profile(), **more}))
        for more in ({}, {"podGroupAPIs": ["volcano"]}, {"podGroupAPIs": ["scheduler-plugins"]})
    ]
    apis = [configured(policy, has_gangs=True).config.configuration.pod_group_apis for policy in policies]
    assert apis == [("scheduler-plugins",), ("volcano", "scheduler-plugins"), ("scheduler-plugins",)]
    assert configured(policies[0]).config.configuration.pod_group_apis == ()


def test_a_gang_stays_in_the_domain_that_its_annotations_ask_for() -> None:
    zones = {REQUIRED: "topology.kubernetes.io/zone"}
    workload = replace(
        TEAM,
        nodes=(GeneratedNodes(4, {"cpu": "2"}, zones=("a", "b")),),
        pods=(),
        gangs=(GeneratedGangs(1, {"cpu": "1"}, members=(3,), annotations=zones),),
        count=6,
    )
    timed = generated_run(workload, DEFAULT, 1)
    zones_of: dict[str, set[int]] = {}
    for uid, placement in timed.end().placed.items():
        zones_of.setdefault(uid.rpartition("-")[0], set()).add(int(placement.node[-1]) % 2)
    assert len(zones_of) == timed.gangs == 6
    assert {len(zones) for zones in zones_of.values()} == {1}


def test_a_note_says_why_gangs_wait_for_a_label_that_no_node_has() -> None:
    gangs = (GeneratedGangs(1, {"cpu": "1"}, members=(2,), annotations={REQUIRED: "example.com/rack"}),)
    workload = replace(TEAM, nodes=(GeneratedNodes(2, {"cpu": "8"}),), pods=(), gangs=gangs, count=3)
    row = run(spec(DEFAULT, workload))
    assert (row.gangs_waiting, row.error) == (3, "")
    assert row.notes.startswith("most frequent reason of waiting: ")
    assert "example.com/rack" in row.notes
    assert len(row.notes) < 400
