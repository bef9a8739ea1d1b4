"""Preemptors that come one after another find what each would find by itself, whatever happens in between."""

import random

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.policy import PodDisruptionBudget
from kscheduler.assembly import Ports, profiles_over
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cluster.preemption import PreemptionSearch
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.informers.store import Store
from kscheduler.plugins.default_preemption.plugin import DefaultPreemption
from kscheduler.plugins.default_preemption.remembered import RowMemory
from kscheduler.plugins.default_preemption.victims import Tried, VictimSearch
from kscheduler.plugins.in_tree import registry
from kscheduler.scheduling.classes.class_engine import ClassEngine
from kscheduler.scheduling.cycle.schedule import schedule
from kscheduler.scheduling.eviction.disruption_budgets import StoredBudgets
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from tests.builders import Tree, make_node, make_pod
from tests.effort import example_count

APPS = ("web", "db")
SLOW: Tree = {"key": "slow", "effect": "NoSchedule"}


class Cluster:
    """Nodes of 4 cpu, pods of four priorities on them, and a history made from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cache = Cache()
        self.budgets: Store[PodDisruptionBudget] = Store()
        ports = Ports(budgets=StoredBudgets(self.budgets))
        self.profile = profiles_over(self.cache, default_configuration("kscheduler"), registry(), ports)["kscheduler"]
        self.engine = ClassEngine(self.profile, self.cache)
        self.pods: dict[str, tuple[str, int]] = {}
        self.serial = 0
        for number in range(6):
            self.put_node(f"n{number}")
            for _ in range(4):
                self.pod_comes()

    def memory(self) -> RowMemory:
        """What its plugin remembers."""
        (plugin,) = [one for one in self.profile.post_filter if isinstance(one, DefaultPreemption)]
        return plugin._memory

    def put_node(self, name: str, **spec: object) -> None:
        node = make_node(name, cpu=self.chance.choice(["4", "4", "3"]), spec=spec)
        (self.cache.update_node if self.cache.has_node(name) else self.cache.add_node)(node)

    def names(self) -> list[str]:
        return [str(name) for name in self.cache.nodes.names() if name]

    def pod_comes(self) -> None:
        self.serial += 1
        self.show(f"p{self.serial}", self.chance.choice(self.names()), self.chance.randint(0, 3))

    def show(self, name: str, node: str, priority: int) -> None:
        """A pod of 1 cpu, or the next version of it."""
        status = {"startTime": f"2026-01-0{self.chance.randint(1, 9)}T00:00:00Z"}
        labels = {"app": self.chance.choice(APPS)}
        made = make_pod(name, node=node, priority=priority, requests={"cpu": "1"}, labels=labels, status=status)
        self.cache.add_pod(made)
        self.pods[name] = node, priority

    def change(self) -> None:
        """Something happens, or nothing."""
        chance, names = self.chance, self.names()
        what = chance.randrange(12)
        if what < 3:
            self.pod_comes()
        elif what < 5 and self.pods:
            name = chance.choice(list(self.pods))
            del self.pods[name]
            self.cache.remove_pod(f"uid-of-{name}")
        elif what == 5 and self.pods:
            name = chance.choice(list(self.pods))
            self.show(name, *self.pods[name])
        elif what == 6:
            spec: Tree = chance.choice([{}, {"unschedulable": True}, {"taints": [SLOW]}])
            self.put_node(chance.choice(names), **spec)
        elif what == 7:
            self.nodes_change(names)
        elif what == 8:
            self.budget(chance.choice(APPS), chance.randint(-1, 2))
        elif what < 11:
            self.nomination(names)

    def nodes_change(self, names: list[str]) -> None:
        if self.chance.random() < 0.5 and len(names) > 3:
            gone = self.chance.choice(names)
            for name in [one for one, (node, _) in self.pods.items() if node == gone]:
                self.cache.remove_pod(f"uid-of-{name}")
                del self.pods[name]
            self.cache.remove_node(gone)
        else:
            self.put_node(f"n{self.chance.randrange(40)}")

    def budget(self, app: str, allowed: int) -> None:
        key = f"default/{app}"
        if allowed < 0:
            if key in self.budgets:
                self.budgets.remove(key)
            return
        tree = {
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.budgets.put(key, convert(tree, PodDisruptionBudget))

    def nomination(self, names: list[str]) -> None:
        name = f"waiting-{self.chance.randrange(5)}"
        self.cache.nominator.remove(f"uid-of-{name}")
        if self.chance.random() < 0.7:
            pod = PodInfo(make_pod(name, priority=self.chance.randint(2, 6), requests={"cpu": "2"}))
            self.cache.nominator.nominate(pod, self.chance.choice([*names, "absent"]))

    def preemptor(self) -> PodInfo:
        """One of few kinds; now and then one that is nominated itself."""
        if self.chance.random() < 0.1:
            name = f"waiting-{self.chance.randrange(5)}"
        else:
            self.serial += 1
            name = f"new-{self.serial}"
        cpu, priority = self.chance.choice([("3", 5), ("3", 5), ("3", 5), ("3", 2), ("9", 5)])
        return PodInfo(make_pod(name, priority=priority, requests={"cpu": cpu}))


def reported(record: SchedulingRecord) -> object:
    search = record.state.find(PreemptionSearch)
    found = (search.candidates(), search.chosen) if search is not None else None
    return record.node_name, record.message, record.post_filter, record.nominated_node_name, found


@pytest.mark.parametrize("seed", range(example_count(30)))
def test_what_is_remembered_is_what_a_search_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle that is not to believe what is known (it gets no engine) remembers nothing."""
    monkeypatch.setattr("kscheduler.framework.nodes.node_table._FIRST_CAPACITY", 4)
    cluster = Cluster(seed)
    for number in range(80):
        cluster.change()
        pod = cluster.preemptor()
        reported_before = reported(schedule(cluster.profile, pod, cluster.cache, engine=cluster.engine))
        assert reported_before == reported(schedule(cluster.profile, PodInfo(pod.pod), cluster.cache)), number


def test_only_rows_where_something_has_happened_are_tried_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[list[str]] = []
    search = VictimSearch.on

    def on(self: VictimSearch, rows: Rows) -> Tried:
        tried.append([self.nodes.name_of(row) for row in rows.tolist()])
        return search(self, rows)

    monkeypatch.setattr(VictimSearch, "on", on)
    cluster = Cluster(0)
    for node in cluster.names() * 2:
        cluster.serial += 1
        cluster.show(f"p{cluster.serial}", node, 0)  # nowhere is room for 3 cpu
    cluster.cache.nominator.nominate(PodInfo(make_pod("waiting", priority=5, requests={"cpu": "1"})), "n4")

    def preempt(number: int, **fields: object) -> list[list[str]]:
        tried.clear()
        pod = PodInfo(make_pod(f"like-{number}", priority=5, requests={"cpu": "3"}, **fields))
        schedule(cluster.profile, pod, cluster.cache, engine=cluster.engine)
        return [sorted(names) for names in tried]

    everywhere = [cluster.names()]
    assert preempt(1) == everywhere
    assert preempt(2) == everywhere, "nobody knows yet that there are several"
    assert preempt(3) == []
    cluster.show("p1", cluster.pods["p1"][0], 1)
    assert preempt(4) == [[cluster.pods["p1"][0]]]
    cluster.cache.nominator.remove("uid-of-waiting")
    assert preempt(5) == [["n4"]]
    assert preempt(6, labels={"app": "other"}, namespace="other") == [], "no filter reads these"
    assert preempt(6, nodeSelector={}, tolerations=[{"operator": "Exists"}]) == everywhere, "of another class"
    cluster.budget("web", 1)
    assert preempt(7) == everywhere
    assert preempt(8) == []


def test_classes_that_do_not_come_again_hold_on_to_few_pods() -> None:
    """Each Job's preemptors are a class of their own, and its victims are gone soon."""
    cluster = Cluster(0)
    for node in cluster.names() * 2:
        cluster.serial += 1
        cluster.show(f"p{cluster.serial}", node, 0)
    memory = cluster.memory()
    for job in range(40):
        for number in range(3):
            made = make_pod(f"{job}-{number}", priority=5, requests={"cpu": "3", "memory": str(job + 1)})
            schedule(cluster.profile, PodInfo(made), cluster.cache, engine=cluster.engine)
    assert 1 < len(memory) <= 16


def test_nothing_is_remembered_of_a_class_that_weighs_megabytes() -> None:
    memory = RowMemory()
    light, heavy = ("web", 1), (tuple(f"key-{number}" for number in range(200_000)), 1)
    assert [memory._is_seen(key) for key in (light, heavy, light, heavy)] == [False, False, True, False]
