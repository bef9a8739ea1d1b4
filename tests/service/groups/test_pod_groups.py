"""The whole service with the gate GenericWorkload, on an embedded API server that serves PodGroups of 1.37."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from kscheduler.api.machinery.resources import served_kinds
from kscheduler.config.loader import from_tree
from kscheduler.config.overrides import with_settings
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.framework.cluster.topology_request import REQUIRED
from kscheduler.service import App
from tests.builders import Tree, node_tree, pod_tree
from tests.service.log.reading import log_at
from tests.service.preemption_stage import options
from tests.service.running import SECONDS, answer, node_of, put, running, until

GATE = "GenericWorkload"
GROUPS = "podgroups.scheduling.k8s.io"
PATH = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"


class GangCluster:
    """A server, and the service that schedules there."""

    def __init__(self, server: EmbeddedAPIServer, app: App) -> None:
        self.server = server
        self.app = app

    async def add_group(self, name: str, min_count: int, **annotations: str) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
        metadata = {"name": name, "annotations": annotations}
        body = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
        await self.app.parts.client.post(PATH, json.dumps(body).encode())

    def add_member(self, name: str, group: str, **fields: Any) -> None:
        put(self.server, "pods", member(name, group, **fields))

    def condition(self, name: str) -> Tree:
        record = self.server.store.get(GROUPS, "default", name)
        found = record.value.get("status", {}).get("conditions", []) if record is not None else []
        return dict(found[0]) if found else {}

    def bound(self, *names: str) -> bool:
        return all(node_of(self.server, name) for name in names)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not condition():  # noqa: ASYNC110  # the store tells of pods only
                await asyncio.sleep(0.005)


def member(name: str, group: str, **fields: Any) -> Tree:
    return pod_tree(name, requests={"cpu": "2"}, schedulingGroup={"podGroupName": group}, **fields)


@asynccontextmanager
async def gang_cluster(*members: Tree, backoff_seconds: int = 1, **settings: Any) -> AsyncIterator[GangCluster]:
    """A node with room for two members; these pods are there before the service begins."""
    backoff = {"podInitialBackoffSeconds": backoff_seconds, "podMaxBackoffSeconds": max(backoff_seconds, 10)}
    settings |= backoff
    chosen = options(gates=f"{GATE}=true", version="1.37")
    chosen = replace(chosen, config=with_settings(chosen.config, settings, "test"))
    kinds = served_kinds("1.37", lambda gate: gate == GATE)
    async with EmbeddedAPIServer(seed=1, kinds=kinds) as server:
        put(server, "nodes", node_tree("node"))
        for tree in members:
            put(server, "pods", tree)
        async with running(server, chosen) as (app, _, _):
            await app.parts.informers.wait_for_sync(SECONDS)
            yield GangCluster(server, app)
            assert not app.parts.observations.plugin_failures


async def test_a_gang_waits_for_room_says_so_and_is_placed_whole() -> None:
    async with gang_cluster() as cluster:
        await cluster.add_group("train", 3)
        for number in range(3):
            cluster.add_member(f"train-{number}", "train")
        await cluster.until(lambda: cluster.condition("train").get("reason") == "Unschedulable")
        assert "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining" in cluster.condition("train")["message"]
        assert not any(cluster.bound(f"train-{number}") for number in range(3))
        put(cluster.server, "nodes", node_tree("more"))
        await until(cluster.server, lambda: cluster.bound("train-0", "train-1", "train-2"))
        await cluster.until(lambda: cluster.condition("train").get("status") == "True")
        _, page = await answer(cluster.app, "/metrics")
        assert 'scheduler_podgroup_schedule_attempts_total{profile="kscheduler",result="scheduled"} 1.0' in page


async def test_why_says_that_a_group_backs_off_and_what_a_decision_would_be_now() -> None:
    with log_at(2) as log:
        async with gang_cluster(backoff_seconds=600) as cluster:
            await cluster.add_group("train", 3)
            for number in range(3):
                cluster.add_member(f"train-{number}", "train")
            await cluster.until(lambda: cluster.condition("train").get("reason") == "Unschedulable")
            put(cluster.server, "nodes", node_tree("more"))
            has_node = cluster.app.parts.assembly.cache.has_node
            await cluster.until(lambda: has_node("more"))
            _, text = await answer(cluster.app, "/explain?podGroup=default/train")
            _, lines = await answer(cluster.app, "/explain?podGroup=default/train", accept="text/plain")
            _, page = await answer(cluster.app, "/ui/pods/default/train-0")
            _, pending = await answer(cluster.app, "/pending")
    (tried,) = log.named("pod_group_tried")
    assert (tried["group"], tried["placed"], tried["pods"], tried["attempts"]) == ("default/train", 0, 3, 1)
    found = json.loads(text)
    assert found["podGroupOutcome"]["condition"]["reason"] == "Scheduled"
    situation = found["situation"]
    assert situation["condition"]["reason"] == "Unschedulable"
    assert (situation["minimum"], situation["onNodes"]) == (3, {})
    known = situation["inService"]
    assert (known["place"], known["attempts"], known["leads"]) == ("backoff", 1, True)
    assert known["backoffUntil"]
    head, now, condition, *_ = lines.splitlines()
    assert head.startswith("pod group default/train: Unschedulable; backs off after 1 attempt: it is tried again in ")
    assert now == "  decided at this moment: would be scheduled now"
    assert condition.startswith("  condition PodGroupInitiallyScheduled=False (Unschedulable) since ")
    assert "is tried again in " in page
    assert "when its pause is over" not in page
    assert '"queue":"backoff"' in pending.replace(" ", "")


async def test_a_group_that_runs_is_answered_about_as_a_group() -> None:
    async with gang_cluster() as cluster:
        await cluster.add_group("train", 2)
        for number in range(2):
            cluster.add_member(f"train-{number}", "train")
        await until(cluster.server, lambda: cluster.bound("train-0", "train-1"))
        await cluster.until(lambda: cluster.condition("train").get("status") == "True")
        cache = cluster.app.parts.assembly.cache
        await cluster.until(lambda: not any(cache.is_assumed(uid) for uid in ("train-0", "train-1")))
        _, text = await answer(cluster.app, "/explain?podGroup=default/train")
    found = json.loads(text)
    assert found["message"] == "no member waits: 2 members are on nodes, and its minimum is 2"
    assert found["situation"]["onNodes"] == {"train-0": "node", "train-1": "node"}


async def test_a_group_whose_kind_is_not_served_is_reported_by_readyz() -> None:
    tree = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "podGroupAPIs": ["volcano"],
        "profiles": [{"schedulerName": "kscheduler"}],
    }
    chosen = replace(options(), config=from_tree(tree, "test"))
    resource = "podgroups.scheduling.volcano.sh"
    async with EmbeddedAPIServer(seed=1) as server, running(server, chosen) as (app, _, _):
        await app.parts.informers.wait_for_sync(SECONDS)
        member_of_vok = pod_tree("one")
        member_of_vok["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "vok"}
        put(server, "pods", member_of_vok)
        await GangCluster(server, app).until(lambda: app.parts.assembly.queue.find("default/one") is not None)
        _, ready = await answer(app, "/readyz?verbose")
        _, text = await answer(app, "/explain?podGroup=default/vok")
    waits = "the API server does not have it; waiting for it to appear, and pods of such groups wait"
    assert f"{resource}: {waits}" in ready
    lacks = f"waits for PodGroup default/vok ({resource}), a kind that the API server does not serve"
    assert json.loads(text)["message"] == lacks


async def test_the_pages_of_a_gated_group_say_who_keeps_it_out_and_why() -> None:
    async with gang_cluster() as cluster:
        await cluster.add_group("train", 2)
        cluster.add_member("train-0", "train")
        queue = cluster.app.parts.assembly.queue
        await cluster.until(lambda: queue.find("default/train-0") is not None)
        _, page = await answer(cluster.app, "/ui/pods/default/train-0")
        assert "gated by GangScheduling: 1 of 2 members of pod group train are there" in page
        cluster.add_member("train-1", "train", schedulingGates=[{"name": "a.example/gate"}])
        await cluster.until(lambda: queue.find("default/train-1") is not None)
        _, page = await answer(cluster.app, "/ui/pods/default/train-0")
        why = "its pod group waits for member default/train-1: waiting for scheduling gates: [a.example/gate]"
        assert f"is gated: {why}" in page
        _, page = await answer(cluster.app, "/ui/")
        assert why in page


async def test_members_that_come_before_their_group_wait_for_it() -> None:
    async with gang_cluster(member("train-0", "train"), member("train-1", "train")) as cluster:
        await cluster.until(lambda: cluster.app.parts.assembly.queue.find("default/train-1") is not None)
        found = cluster.app.parts.assembly.queue.find("default/train-0")
        assert found is not None
        assert found[0] == "incomplete"
        await cluster.add_group("train", 2)
        await until(cluster.server, lambda: cluster.bound("train-0", "train-1"))


async def test_pending_and_the_log_say_what_keeps_an_incomplete_gang_out() -> None:
    with log_at(2) as log:
        async with gang_cluster() as cluster:
            await cluster.add_group("half", 4)
            for name in ("half-0", "half-1"):
                cluster.add_member(name, "half")
                await log.until("pod_kept_out", pod=f"default/{name}")
            claims = [{"name": "gpu", "resourceClaimName": "not-there"}]
            put(cluster.server, "pods", pod_tree("alone", resourceClaims=claims))
            await log.until("pod_kept_out", pod="default/alone")
            status, text = await answer(cluster.app, "/pending")
            assert cluster.condition("half") == {}  # as with kube-scheduler: nothing was attempted
    assert status == 200
    found = {reason["plugins"][0]: (reason["queue"], reason["message"]) for reason in json.loads(text)["reasons"]}
    lacks = 'could not find ResourceClaim "default/not-there"'
    assert found == {
        "GangScheduling": ("gated", "2 of 4 members of pod group half are there"),
        "DynamicResources": ("gated", lacks),
    }
    reported = [(line["pod"], line["plugin"], line["message"]) for line in log.named("pod_kept_out")]
    assert reported == [
        ("default/half-0", "GangScheduling", "1 of 4 members of pod group half are there"),
        ("default/half-1", "GangScheduling", "2 of 4 members of pod group half are there"),
        ("default/alone", "DynamicResources", lacks),
    ]


async def test_pending_names_the_member_that_its_group_waits_for() -> None:
    async with gang_cluster() as cluster:
        await cluster.add_group("train", 2)
        cluster.add_member("train-0", "train", schedulingGates=[{"name": "a/b"}])
        cluster.add_member("train-1", "train")
        await cluster.until(lambda: cluster.app.parts.assembly.queue.find("default/train-1") is not None)
        _, text = await answer(cluster.app, "/pending")
    waits = "its pod group waits for member default/train-0: waiting for scheduling gates: [a/b]"
    assert any(waits in reason["message"] for reason in json.loads(text)["reasons"])


async def test_a_deleted_member_that_is_made_anew_is_placed_beside_the_others() -> None:
    async with gang_cluster() as cluster:
        await cluster.add_group("train", 2)
        for number in range(2):
            cluster.add_member(f"train-{number}", "train")
        await until(cluster.server, lambda: cluster.bound("train-0", "train-1"))
        await cluster.app.parts.client.delete("/api/v1/namespaces/default/pods/train-0", b'{"gracePeriodSeconds": 0}')
        await cluster.until(lambda: cluster.server.store.get("pods", "default", "train-0") is None)
        cluster.add_member("train-0", "train", uid="another")
        await until(cluster.server, lambda: cluster.bound("train-0", "train-1"))


async def test_pending_tells_a_gang_in_one_entry_with_its_name_and_what_its_members_were_reported() -> None:
    async with gang_cluster() as cluster:
        await cluster.add_group("train", 3)
        for number in range(3):
            cluster.add_member(f"train-{number}", "train")
        said: Counter[str] = Counter()
        for number in range(3):
            await until(cluster.server, lambda number=number: bool(reported(cluster, f"train-{number}")))  # type: ignore[misc]
            said[reported(cluster, f"train-{number}")] += 1
        (of_group, _), (of_one, _) = said.most_common()
        status, text = await answer(cluster.app, "/pending?suggestions=true")
        assert status == 200
        tree = json.loads(text)
        (reason,) = tree["reasons"]
        assert (reason["podGroup"], reason["queue"], reason["count"]) == ("default/train", "backoff", 3)
        assert reason["message"] == f"{of_group} (2 members); {of_one} (1 member)"
        assert reason["plugins"] == ["NodeResourcesFit"]
        assert tree["byPlugin"] == {"NodeResourcesFit": 1}
        assert [pod["name"] for pod in reason["pods"]] == ["train-0", "train-1", "train-2"]


def reported(cluster: GangCluster, name: str) -> str:
    record = cluster.server.store.get("pods", "default", name)
    assert record is not None
    return "".join(each["message"] for each in record.value.get("status", {}).get("conditions", []))


async def test_a_tree_of_1_38_is_placed_whole_and_each_of_its_groups_is_told() -> None:
    gates = {GATE, "TopologyAwareWorkloadScheduling", "CompositePodGroup"}
    chosen = options(gates=",".join(f"{gate}=true" for gate in gates), version="1.38")
    composites = PATH.replace("podgroups", "compositepodgroups")
    async with EmbeddedAPIServer(seed=1, kinds=served_kinds("1.38", gates.__contains__)) as server:
        put(server, "nodes", node_tree("node"))
        async with running(server, chosen) as (app, _, _):
            await app.parts.informers.wait_for_sync(SECONDS)
            cluster = GangCluster(server, app)
            reference = {"workloadRef": {"workloadName": "w", "templateName": "t"}}
            whole = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}, **reference}
            await app.parts.client.post(composites, json.dumps({"metadata": {"name": "all"}, "spec": whole}).encode())
            for name in ("a", "b"):
                spec = {
                    "schedulingPolicy": {"gang": {"minCount": 1}},
                    "parentCompositePodGroupName": "all",
                    **reference,
                }
                await app.parts.client.post(PATH, json.dumps({"metadata": {"name": name}, "spec": spec}).encode())
                cluster.add_member(f"{name}-0", name)
            await until(server, lambda: cluster.bound("a-0", "b-0"))

            def condition() -> Tree:
                record = server.store.get("compositepodgroups.scheduling.k8s.io", "default", "all")
                found = record.value.get("status", {}).get("conditions", []) if record is not None else []
                return dict(found[0]) if found else {}

            await cluster.until(lambda: condition().get("status") == "True")
            assert (condition()["type"], condition()["reason"]) == ("CompositePodGroupInitiallyScheduled", "Scheduled")
            await cluster.until(lambda: all(cluster.condition(name).get("status") == "True" for name in ("a", "b")))
            assert not app.parts.observations.plugin_failures


async def test_a_gang_that_requires_a_level_of_an_api_that_is_not_served_says_what_it_waits_for() -> None:
    kind = "topologies.kueue.x-k8s.io"
    async with gang_cluster(topologyAPIs=["kueue"]) as cluster:
        await cluster.add_group("train", 2, **{REQUIRED: "example.com/rack"})
        for number in range(2):
            cluster.add_member(f"train-{number}", "train")
        why = f"waits for {kind} of topologyAPIs: the API server does not serve v1beta2"
        await cluster.until(lambda: cluster.condition("train").get("message") == f"podgroup/default/train {why}")
        assert cluster.condition("train")["reason"] == "Unschedulable"
        _, body = await answer(cluster.app, "/readyz?verbose")
        note = "the API server does not have it; waiting for it to appear, and so do pod groups that require its levels"
        assert f"{kind}: {note}" in body
        _, body = await answer(cluster.app, "/explain?podGroup=default/train")
        assert why in body
