"""How long to search for changes: what one pod's words are costs no other pod its answer."""

import json
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import main
from kscheduler.explain.suggestions import search_time
from kscheduler.explain.suggestions.search import suggestions
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.framework.pods.pod_info import PodInfo
from tests.explain.pending.test_pending import NODE, pod
from tests.explain.suggestions.random_scenarios import Tree, decided

AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
# Of processor time for an answer about giants: the searches alone took minutes.
MAX_SECONDS = 2.0


def labels(number: int) -> dict[str, str]:
    return {f"example.com/label-{at}": f"value-{at}" for at in range(number)}


def terms(number: int, values: int) -> Tree:
    of_each = [[f"{term}-{at}" for at in range(values)] for term in range(number)]
    listed = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": each}]} for each in of_each]
    return {"nodeAffinity": {AFFINITY: {"nodeSelectorTerms": listed}}}


def near_pods(number: int) -> Tree:
    listed = [{"labelSelector": {"matchLabels": {f"app-{at}": "x"}}, "topologyKey": "zone"} for at in range(number)]
    return {"podAffinity": {AFFINITY: listed}}


GIANTS: dict[str, tuple[str, Tree]] = {
    "labels of a selector": ("spec.nodeSelector has 3,000 entries", {"nodeSelector": labels(3_000)}),
    "terms of node affinity": ("spec.affinity.nodeAffinity has ", {"affinity": terms(100, 200)}),
    "terms of pod affinity": ("spec.affinity.podAffinity has 2,000 entries", {"affinity": near_pods(1_000)}),
    "tolerations": (
        "spec.tolerations has 1,500 entries",
        {"nodeSelector": {"a": "b"}, "tolerations": [{"key": f"k{at}", "operator": "Exists"} for at in range(1_500)]},
    ),
}


def file_of(tmp_path: Path, *objects: Tree) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, *objects]}))
    return str(path)


def tree_of(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "-o", "json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("what", GIANTS)
def test_a_giant_pod_gets_its_verdict_and_no_search(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    says, spec = GIANTS[what]
    dump = file_of(tmp_path, pod("giant", **spec))
    began = time.thread_time()
    tree = tree_of(capsys, "explain", "shop/giant", "--from", dump)
    assert time.thread_time() - began < MAX_SECONDS
    assert (tree["outcome"], tree["suggestions"]) == ("Unschedulable", [])
    (note,) = [note for note in tree["notes"] if "too much to look for changes" in note]
    assert says in note
    assert main(["explain", "shop/giant", "--from", dump]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "too much to look for changes that would help" in text
    assert "none of the changes that were tried" not in text


def test_giants_of_one_tenant_leave_all_other_pods_their_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The giants are older, and wait for the same reason: they stand for nobody else."""
    giants = [pod(f"giant-{at}", namespace="noisy", **spec) for at, (_, spec) in enumerate(GIANTS.values())]
    picky = pod("picky", created="2026-02-01T00:00:00Z", nodeSelector={"disk": "ssd"})
    large = pod("large", cpu="9", created="2026-02-01T00:00:00Z")
    began = time.thread_time()
    tree = tree_of(capsys, "pending", "--from", file_of(tmp_path, *giants, picky, large))
    assert time.thread_time() - began < MAX_SECONDS
    assert tree["count"] == len(giants) + 2
    helped = {reason["suggestion"]["pod"] for reason in tree["reasons"] if reason["suggestion"]}
    assert helped >= {"shop/picky", "shop/large"}
    assert not [reason for reason in tree["reasons"] if not reason["suggestion"] and not reason["leftOff"]]


def test_a_reason_of_giants_alone_says_why_it_has_no_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = file_of(tmp_path, pod("giant", nodeSelector=labels(3_000)))
    (reason,) = tree_of(capsys, "pending", "--from", dump)["reasons"]
    assert reason["suggestion"] is None
    assert reason["leftOff"] == "spec.nodeSelector has 3,000 entries: too much to look for changes that would help"
    assert main(["pending", "--from", dump]) == 0
    assert "too much to look for changes that would help" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("trials", [1, 2, 5])
def test_a_search_ends_with_its_time_and_keeps_what_it_has_found(trials: int) -> None:
    """Virtual time, a second for each look at the clock: every change that was found is still one that was tried, the
    cluster is as before, and the answer says that there may be others.
    """
    spec = pod("middle", cpu="9", nodeSelector={"disk": "ssd"}, schedulerName="default-scheduler")
    decision = decided({"pod": spec, "objects": {"nodes": [NODE]}})
    assert decision.profile is not None
    assert decision.cache is not None
    seconds = count()
    limited = SearchTime(float(trials), lambda: float(next(seconds)))
    queried = PodInfo(decision.scenario.pod)
    found = suggestions(decision.profile, queried, decision.cache, time=limited)
    whole = suggestions(decision.profile, queried, decision.cache)
    assert whole
    assert set(map(str, found)) < set(map(str, whole))
    assert "there may be others" in limited.left_off


def test_of_many_searches_each_has_its_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the first ones take: what they leave is shared by the others."""
    now = 0.0
    monkeypatch.setattr(search_time, "thread_time", lambda: now)
    shared = search_time.SharedTime(4, 8.0)
    assert shared.part().seconds == 2.0
    now = 2.0  # it took all of it
    assert shared.part().seconds == 2.0
    now = 2.0  # it took nothing
    assert shared.part().seconds == 3.0
