"""Nominations: what a status says, what preemption decided, and who has to yield to whom."""

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import Pod
from kscheduler.api.releases import BEHAVIOURS
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.cache import Cache
from kscheduler.state.nominator import NominatedPods
from tests.builders import make_node, make_pod


def pod(name: str, nominated: str = "", priority: int = 0, **spec: object) -> PodInfo:
    return PodInfo(make_pod(name, status={"nominatedNodeName": nominated}, priority=priority, **spec))


def test_a_pod_is_nominated_where_its_status_says_and_nowhere_after_it_is_removed() -> None:
    nominator = NominatedPods()
    one, other = pod("one", "a"), pod("other", "a")
    nominator.add(one)
    nominator.add(other)
    assert nominator.nominated_pods("a") == (one, other)
    assert nominator.nominated_node(one) == "a"
    nominator.remove(one.uid)
    nominator.remove(one.uid)
    assert nominator.nominated_pods("a") == (other,)
    assert nominator.nominated_node(one) == ""


def test_a_pod_without_a_nominated_node_is_not_kept() -> None:
    nominator = NominatedPods()
    nominator.add(pod("one"))
    assert len(nominator) == 0


def test_a_nomination_made_here_outlives_a_status_that_does_not_know_it_yet() -> None:
    nominator = NominatedPods()
    nominator.nominate(pod("one"), "a")
    changed = pod("one")
    nominator.update(make_pod("one"), changed)
    assert nominator.nominated_pods("a") == (changed,), "the newest version of the pod counts"


def test_a_decision_outlives_a_change_of_the_pod_whose_status_still_names_the_node_of_an_earlier_one() -> None:
    """The pod's labels change before the watch shows its new nomination: the room on `b` must stay reserved."""
    nominator = NominatedPods()
    nominator.add(pod("one", "a"))
    nominator.nominate(pod("one", "a"), "b")
    nominator.update(pod("one", "a").pod, pod("one", "a"))
    assert nominator.nominated_node(pod("one")) == "b"
    nominator.update(pod("one", "a").pod, pod("one", "c"))
    assert nominator.nominated_node(pod("one")) == "c", "the status has the last word when it speaks"


def test_a_pod_whose_gates_open_is_nominated_where_its_status_says() -> None:
    nominator = NominatedPods()
    gated = pod("one", "a", schedulingGates=[{"name": "g"}])
    nominator.add(gated)
    nominator.update(gated.pod, pod("one", "a"))
    assert nominator.nominated_node(gated) == "a"


def test_a_status_that_loses_its_node_ends_the_nomination() -> None:
    nominator = NominatedPods()
    nominator.add(pod("one", "a"))
    nominator.update(pod("one", "a").pod, pod("one"))
    assert len(nominator) == 0


def test_a_status_that_names_another_node_moves_the_nomination() -> None:
    nominator = NominatedPods()
    nominator.nominate(pod("one"), "a")
    nominator.update(make_pod("one"), pod("one", "b"))
    assert nominator.nominated_pods("a") == ()
    assert nominator.nominated_node(pod("one")) == "b"


def test_preemption_may_take_a_nomination_back() -> None:
    nominator = NominatedPods()
    nominator.add(pod("one", "a"))
    nominator.nominate(pod("one", "a"), "")
    assert len(nominator) == 0


def test_a_pod_that_waits_for_gates_has_no_claim() -> None:
    nominator = NominatedPods()
    nominator.add(pod("one", "a", schedulingGates=[{"name": "g"}]))
    assert len(nominator) == 0


def test_from_1_37_on_a_pod_that_waits_for_gates_has_one() -> None:
    for version, node_name in (("1.36", ""), ("1.37", "a")):
        nominator = Cache(BEHAVIOURS[version]).nominator
        gated = pod("one", "a", schedulingGates=[{"name": "g"}])
        nominator.add(gated)
        assert nominator.nominated_node(gated) == node_name


def test_a_pod_that_counts_on_a_node_is_nominated_nowhere() -> None:
    cache = Cache()
    cache.add_node(make_node("a"))
    assumed, bound = pod("assumed", "a"), pod("bound", "a")
    cache.nominator.add(assumed)
    cache.nominator.add(bound)
    cache.assume_pod(assumed, "a")
    cache.add_pod(make_pod("bound", node="a"))
    assert len(cache.nominator) == 0


NODES = ("", "a", "b")
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "update", "nominate", "remove"]),
        st.sampled_from(["p", "q", "r"]),
        st.sampled_from(NODES),
        st.sampled_from(NODES),
        st.integers(0, 2),
    ),
    max_size=20,
)


@given(steps)
def test_equals_a_list_of_nominations(history: list[tuple[str, str, str, str, int]]) -> None:
    nominator = NominatedPods()
    model: dict[str, tuple[str, int]] = {}
    for step, name, before, named, its_priority in history:
        info = pod(name, named, its_priority)
        here = model.pop(info.uid, ("", 0))[0]
        if step == "remove":
            nominator.remove(info.uid)
            continue
        if step == "add":
            nominator.add(info)
        elif step == "nominate":
            nominator.nominate(info, named)
        else:
            nominator.update(old_version(name, before), info)
        kept = here if step == "update" and before == named else ""
        if kept or named:
            model[info.uid] = (kept or named, its_priority)
    assert len(nominator) == len(model)
    for node in ("a", "b"):
        uids = [info.uid for info in nominator.nominated_pods(node)]
        assert uids == [uid for uid, (where, _) in model.items() if where == node]
    assert list(nominator.nominated()) == list(model)
    for uid, (where, _) in model.items():
        assert (found := nominator.nomination(uid)) is not None
        assert (found[0], found[1].uid) == (where, uid)


def old_version(name: str, nominated: str) -> Pod:
    return pod(name, nominated).pod
