"""Stories of pods that were stuck: what the state machine found, told in its own words, one test for each."""

from collections.abc import Iterator

import pytest

from kscheduler.api.kinds import NODES, PODS
from tests.scheduling.never_stuck import words
from tests.scheduling.never_stuck.device_stories import claim, devices, gpus, user
from tests.scheduling.never_stuck.machine import NeverStuck

P = "default/p0"


@pytest.fixture
def state() -> Iterator[NeverStuck]:
    """The machine, by hand: whatever else may be wrong at a rest fails the test as well."""
    machine = NeverStuck()
    yield machine
    machine.service.close()


def node(state: NeverStuck, name: str, *traits: str) -> None:
    state.node_comes(name=name, traits=[*traits])


def pod(
    state: NeverStuck, app: str, *traits: str, name: str = "p0", node: str = "", namespace: str = "default"
) -> None:
    state.pod_comes(described=(name, namespace, app, [*traits], node))


def parked(state: NeverStuck, key: str = P) -> None:
    state.come_to_rest()
    assert state.where(key) == "unschedulable"


def bound(state: NeverStuck, node: str, key: str = P) -> None:
    state.come_to_rest()
    assert state.where(key) == node


def test_a_pod_that_goes_between_decision_and_binding_gives_its_room_to_who_waits(state: NeverStuck) -> None:
    """Its object on the watch knows no node yet, and NodeResourcesFit took that for a pod that held none."""
    node(state, "n0")
    pod(state, "", "cpu 2", name="p1")
    state.server.deliver_all()
    assert state.service.try_next()
    pod(state, "", "cpu 2")
    state.server.deliver_all()
    assert state.service.try_next()
    assert state.where(P) == "unschedulable"
    state.pod_goes(key="default/p1")
    bound(state, "n0")


def test_a_binding_that_fails_gives_its_room_to_who_waits(state: NeverStuck) -> None:
    node(state, "n0")
    pod(state, "", "cpu 2", name="p1")
    state.server.deliver_all()
    assert state.service.try_next()
    pod(state, "", "cpu 1")
    state.server.deliver_all()
    assert state.service.try_next()
    assert state.where(P) == "unschedulable"
    state.binding_is_applied(refused=True, answered=True)
    assert state.where(P) != "unschedulable"
    state.pod_goes(key="default/p1")
    bound(state, "n0")


def test_a_pod_that_ended_with_other_labels_is_gone_with_those_it_had(state: NeverStuck) -> None:
    """The watch broke: it lost its label and ended in one step, and was not seen to have been in anybody's way."""
    node(state, "n0")
    pod(state, "web", name="o0", node="n0")
    pod(state, "", "away from web on host")
    parked(state)
    state.pod_changes(key="default/o0", change="no app")
    state.pod_changes(key="default/o0", change="succeeded")
    state.server.relist(PODS)
    bound(state, "n0")


def test_the_first_of_a_group_may_go_anywhere_once_nobody_is_there_to_join(state: NeverStuck) -> None:
    """It wants to be near its like. The only one stood where it cannot go; when that one went, no hint spoke up."""
    node(state, "n0", "zone a", "tainted")
    node(state, "n1", "zone b")
    pod(state, "web", name="o0", node="n0")
    pod(state, "web", "near web in zone")
    parked(state)
    state.pod_goes(key="default/o0")
    bound(state, "n1")


def test_the_first_of_a_group_may_go_anywhere_once_the_other_is_none_of_it(state: NeverStuck) -> None:
    node(state, "n0", "zone a", "tainted")
    node(state, "n1", "zone b")
    pod(state, "web", name="o0", node="n0")
    pod(state, "web", "near web in zone")
    parked(state)
    state.pod_changes(key="default/o0", change="app db")
    bound(state, "n1")


@pytest.mark.parametrize("traits", [["near web in zone"], ["away from web in zone"]], ids=["near", "away"])
def test_pods_go_from_a_domain_with_their_node(state: NeverStuck, traits: list[str]) -> None:
    """A node that goes takes its pods out of the counts, and nobody had asked to hear of it."""
    node(state, "n0", "zone a", "tainted")
    node(state, "n1", "zone b" if traits[0].startswith("near") else "zone a")
    pod(state, "web", name="o0", node="n0")
    pod(state, "web", *traits)
    parked(state)
    state.node_goes(name="n0")
    bound(state, "n1")


def test_a_node_that_cannot_be_read_any_more_has_gone_with_its_pods(state: NeverStuck) -> None:
    """It was taken out of the cache without a word, and a pod that kept away from one of its pods heard of nothing."""
    node(state, "n0", "zone a", "tainted")
    node(state, "n1", "zone a")
    pod(state, "web", name="o0", node="n0")
    pod(state, "", "away from web in zone")
    parked(state)
    n0 = state.server.get(NODES, "n0")
    assert n0 is not None
    state.server.put(NODES, words.merged(n0, {"status": {"allocatable": {"cpu": "much"}}}))
    state.server.deliver_all()
    assert state.where(P) != "unschedulable"


def test_a_nomination_that_was_never_written_gives_its_room_to_who_waits(state: NeverStuck) -> None:
    """The patch that should tell of it was refused. It ended in memory, and of that no watch tells anybody."""
    node(state, "n0")
    pod(state, "", "cpu 2", "urgent", "pool x", name="p1")
    parked(state, "default/p1")
    service = state.service
    found = service.queue.find("default/p1")
    assert found is not None
    service.cache.nominator.nominate(found[1].pod, "n0")
    pod(state, "", "cpu 2")
    state.server.deliver_all()
    assert service.try_next()
    assert state.where(P) == "unschedulable"
    service.queue.activate(["default/p1"], service.clock.time())
    assert service.try_next()
    assert state.where("default/p1") == "unschedulable", "it has not woken itself"
    bound(state, "n0")


def test_the_first_of_a_group_hears_of_the_node_that_leaves_its_domain(state: NeverStuck) -> None:
    node(state, "n0", "zone a", "tainted")
    node(state, "n1", "zone b")
    pod(state, "web", name="o0", node="n0")
    pod(state, "web", "near web in zone")
    parked(state)
    state.node_gets_or_loses(name="n0", trait="zone a")
    bound(state, "n1")


@pytest.mark.parametrize("trait", ["near web of team x", "away from web of team x"])
def test_a_namespace_that_joins_or_leaves_a_team_is_an_event(state: NeverStuck, trait: str) -> None:
    """Affinity asks for namespaces by their labels; upstream tells no plugin when those change."""
    is_near = trait.startswith("near")
    node(state, "n0", "zone a")
    state.namespace_is(name="blue", team="" if is_near else "x")
    pod(state, "web", name="o0", node="n0", namespace="blue")
    pod(state, "", trait)
    parked(state)
    state.namespace_is(name="blue", team="x" if is_near else "")
    bound(state, "n0")


def test_a_namespace_that_goes_leaves_its_team(state: NeverStuck) -> None:
    node(state, "n0", "zone a")
    state.namespace_is(name="blue", team="x")
    pod(state, "web", name="o0", node="n0", namespace="blue")
    pod(state, "", "away from web of team x")
    parked(state)
    state.namespace_goes(name="blue")
    bound(state, "n0")


def test_a_terminating_pod_is_not_counted_and_its_domain_is_open_at_once(state: NeverStuck) -> None:
    """Spreading leaves terminating pods out. That it began to terminate was no event to anybody."""
    node(state, "n0", "zone a")
    node(state, "n1", "zone b", "tainted")
    pod(state, "web", name="o0", node="n0")
    pod(state, "web", "spread over zones")
    parked(state)
    state.pod_changes(key="default/o0", change="terminating")
    bound(state, "n0")


def test_a_domain_that_nobody_can_use_any_more_counts_no_longer(state: NeverStuck) -> None:
    """Zone b was the emptiest of pool x. Its node left the pool, and so no zone was too full any more."""
    node(state, "n0", "zone a", "pool x")
    node(state, "n1", "zone b", "pool x", "tainted")
    pod(state, "web", name="o0", node="n0")
    pod(state, "web", "spread over zones", "pool x")
    parked(state)
    state.node_gets_or_loses(name="n1", trait="pool x")
    bound(state, "n0")


def storage(state: NeverStuck, plural: str, name: str, what: str) -> None:
    assert what in words.STORAGE[plural][name]
    state.storage_is(what=(plural, name, what))


@pytest.mark.parametrize("ends", ["no limit", "node gone"])
def test_a_limit_that_is_no_more_is_room(state: NeverStuck, ends: str) -> None:
    """A driver that names no limit has none; the hint took it for 0."""
    node(state, "n0")
    storage(state, "csinodes", "n0", "limit 0")
    storage(state, "persistentvolumes", "v0", "everywhere")
    storage(state, "persistentvolumeclaims", "c0", "bound to v0")
    pod(state, "", "claim c0")
    parked(state)
    if ends == "no limit":
        storage(state, "csinodes", "n0", "no limit")
    else:
        state.storage_goes(what=("csinodes", "n0"))
    bound(state, "n0")


@pytest.mark.parametrize("ends", ["silent", "gone"])
def test_a_driver_that_reports_no_capacity_has_any(state: NeverStuck, ends: str) -> None:
    """kube-scheduler looks for the driver among the pod's inline volumes, where capacities do not matter."""
    node(state, "n0", "zone a")
    storage(state, "storageclasses", "dynamic", "any zone")
    storage(state, "csidrivers", words.DRIVER, "tells capacity")
    storage(state, "persistentvolumeclaims", "c0", "dynamic")
    pod(state, "", "claim c0")
    parked(state)
    if ends == "silent":
        storage(state, "csidrivers", words.DRIVER, "silent")
    else:
        state.storage_goes(what=("csidrivers", words.DRIVER))
    bound(state, "n0")


def test_a_claim_for_one_pod_is_free_when_the_node_of_its_pod_is_gone(state: NeverStuck) -> None:
    """A pod on a node that is not there holds nothing, here as upstream; only nobody was told that the node went."""
    node(state, "n0", "tainted")
    node(state, "n1")
    storage(state, "persistentvolumes", "v0", "everywhere")
    storage(state, "persistentvolumeclaims", "c0", "exclusively v0")
    pod(state, "", "claim c0", name="o0", node="n0")
    pod(state, "", "claim c0")
    parked(state)
    state.node_goes(name="n0")
    bound(state, "n1")


def test_a_volume_that_was_only_meant_to_be_taken_is_free_again(state: NeverStuck) -> None:
    """p1 had v0 set aside and its binding of it failed; no event tells of what never was written."""
    node(state, "n0")
    storage(state, "storageclasses", "local", "as always")
    storage(state, "persistentvolumes", "v0", "everywhere")
    storage(state, "persistentvolumeclaims", "c0", "local")
    storage(state, "persistentvolumeclaims", "c1", "local")
    pod(state, "", "claim c1", name="p1")
    state.server.deliver_all()
    queued = state.service.pop()
    assert queued is not None
    attempt = state.service.scheduler.decide(queued)
    assert attempt is not None
    pod(state, "", "claim c0")
    state.server.deliver_all()
    assert state.service.try_next()
    assert state.where(P) == "unschedulable"
    state.pod_goes(key="default/p1")
    state.server.deliver_all()
    state.service.scheduler.abandon(attempt, TimeoutError("too late"))
    bound(state, "n0")


def test_devices_that_were_only_meant_to_be_taken_are_free_again(state: NeverStuck) -> None:
    """The claim could not be written. No claim has changed, so only the end of the pod's assumption tells of it."""
    node(state, "n0")
    both = claim("d0"), claim("d1"), user("p1", resourceClaimName="d1")
    for step in (gpus(), devices("a", nodeName="n0"), *both):
        step(state)
    service = state.service
    refusal = service.claims.refusal = service.loop.create_future()
    state.server.deliver_all()
    assert service.try_next()
    assert state.where("default/p1") == "", "it waits for its claim to be written"
    user(resourceClaimName="d0")(state)
    state.server.deliver_all()
    assert service.try_next()
    assert state.where(P) == "unschedulable", "the device is taken"
    service.hints.clear()
    refusal.set_result(None)
    service.turn()
    assert ("DynamicResources", "AssignedPodDelete", "Queue") in service.hints
    service.claims.refusal = None
    state.pod_goes(key="default/p1")
    bound(state, "n0")


def test_a_disk_is_free_whoever_had_it(state: NeverStuck) -> None:
    """Disks know no namespaces, and the hint looked only at pods of the pod's own."""
    node(state, "n0")
    pod(state, "", "disk", name="o0", node="n0", namespace="blue")
    pod(state, "", "disk")
    parked(state)
    state.pod_goes(key="blue/o0")
    bound(state, "n0")


def expecting(state: NeverStuck, *traits: str) -> None:
    """Node n0, with p1 expected there, which is not tried yet; p0 has left room for it and is parked."""
    node(state, "n0")
    pod(state, "web", "urgent", *traits, name="p1")
    state.pod_is_nominated(key="default/p1", node="n0")
    state.server.deliver_all()
    state.service.hold(judged=False)
    pod(state, "", "away from web on host" if not traits else "cpu 2")
    state.server.deliver_all()
    assert state.service.try_next()
    assert state.where(P) == "unschedulable"


@pytest.mark.parametrize(
    ("traits", "change"),
    [(["cpu 2"], "smaller"), ([], "no app"), ([], "app db")],
    ids=["smaller", "without its label", "with another"],
)
def test_a_nominated_pod_that_asks_for_less_leaves_more(state: NeverStuck, traits: list[str], change: str) -> None:
    """It counts where it is expected; only its own queue entry had been told of the change."""
    expecting(state, *traits)
    state.pod_changes(key="default/p1", change=change)
    state.server.deliver_all()
    assert state.where(P) != "unschedulable"


def test_a_nominated_pod_that_is_bound_elsewhere_needs_its_room_no_longer(state: NeverStuck) -> None:
    expecting(state, "cpu 2")
    node(state, "n1", "tainted")
    tree = state.server.get(PODS, "default/p1")
    assert tree is not None
    tree["spec"]["nodeName"] = "n1"
    state.server.put(PODS, tree)
    bound(state, "n0")


@pytest.mark.parametrize("goes", ["claim", "volume"])
def test_a_volume_that_is_none_any_more_is_not_attached(state: NeverStuck, goes: str) -> None:
    """What pods of a node have attached hangs on their claims and volumes, not on the pods alone."""
    node(state, "n0")
    storage(state, "csinodes", "n0", "limit 1")
    for number in "01":
        storage(state, "persistentvolumes", f"v{number}", "everywhere")
        storage(state, "persistentvolumeclaims", f"c{number}", f"bound to v{number}")
    pod(state, "", "claim c1", name="o0", node="n0")
    pod(state, "", "claim c0")
    parked(state)
    state.storage_goes(what=("persistentvolumeclaims", "c1") if goes == "claim" else ("persistentvolumes", "v1"))
    bound(state, "n0")


@pytest.mark.parametrize("meanwhile", [False, True], ids=["parked", "in flight"])
def test_the_end_of_its_victims_wakes_a_preemptor(state: NeverStuck, meanwhile: bool) -> None:
    """They go while it is parked, or even before anybody acts on the cycle that chose them."""
    node(state, "n0")
    pod(state, "", "cpu 2", name="o0", node="n0")
    pod(state, "", "cpu 2", "urgent")
    state.server.deliver_all()
    if meanwhile:
        state.service.hold(judged=True)
    else:
        assert state.service.try_next()
    state.service.turn()
    state.server.deliver_all()
    state.victims_go()
    state.server.deliver_all()
    assert "default/o0" not in state.server.objects[PODS]
    state.service.release()
    assert state.where(P) in ("active", "backoff")
    bound(state, "n0")


def test_a_preemptor_looks_elsewhere_when_its_node_goes(state: NeverStuck) -> None:
    """Its victims may stay in the API for long, on a node that is no more."""
    node(state, "n0")
    node(state, "n1")
    for name, traits, place in (("o0", ["cpu 1"], "n0"), ("o1", ["cpu 1"], "n0"), ("o2", ["cpu 2"], "n1")):
        state.running_pod_comes(described=(name, "default", "", traits, place))
    state.pod_changes(change="terminating", key="default/o2")
    pod(state, "", "urgent", "cpu 2")
    parked(state)
    assert state.service.cache.nominator.nominated_pods("n1")
    state.node_goes(name="n1")
    bound(state, "n0")


@pytest.mark.parametrize("judged", [False, True], ids=["before its cycle", "after its cycle"])
def test_a_pod_that_ends_while_it_is_tried_does_not_come_back(state: NeverStuck, judged: bool) -> None:
    """A server that knows no field selectors shows it as changed, not as gone."""
    pod(state, "", "cpu 1")
    state.server.deliver_all()
    state.service.hold(judged=judged)
    state.pod_changes(change="succeeded", key=P)
    state.server.deliver_all()
    state.service.release()
    assert state.service.queue.find(P) is None
