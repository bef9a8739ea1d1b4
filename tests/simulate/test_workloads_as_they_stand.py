"""`kscheduler simulate -f`: as many pods as the controller would make now, of this manifest and beside those it has."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.simulate.test_simulate import OWNER, Play, node, nodes_of, pod, workload

Tree = dict[str, Any]


@pytest.fixture
def play(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Play:
    return Play(tmp_path, capsys)


def job(**spec: Any) -> Tree:
    made = workload("Job", 4)
    made["spec"] |= spec
    return made


def cron_job(job_spec: Tree | None = None, **spec: Any) -> Tree:
    template = {"spec": job()["spec"] | (job_spec or {})}
    whole = {"schedule": "0 3 * * *", "jobTemplate": template, **spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "new", "namespace": "shop"},
        "spec": whole,
    }


HELD = [
    pytest.param(job(suspend=True), "Job new makes no pods as it stands: it is suspended (spec.suspend: true)",
                 id="job"),
    pytest.param(job(managedBy="kueue.x-k8s.io/multikueue"),
                 "the Job controller leaves it to kueue.x-k8s.io/multikueue", id="another controller's job"),
    pytest.param(cron_job(suspend=True), "CronJob new makes no pods as it stands: it is suspended", id="cron job"),
    pytest.param(cron_job({"suspend": True}), "its Jobs are made suspended (spec.jobTemplate.spec.suspend: true)",
                 id="cron job of suspended jobs"),
    pytest.param(workload("Deployment", 4, paused=True), "it is paused (spec.paused: true)", id="deployment"),
]  # fmt: skip


@pytest.mark.parametrize(("manifest", "reason"), HELD)
def test_what_its_controller_holds_back_makes_no_pods_and_a_note_says_how_to_try_it(
    play: Play, manifest: Tree, reason: str
) -> None:
    new = play.write("new.yaml", manifest)
    tree = play("-f", new, objects=[node("a", cpu="8")])
    assert tree["placed"] == tree["pending"] == []
    (note,) = tree["notes"]
    assert reason in note
    assert note.endswith("; with --replicas 4 they are tried")
    tried = play("-f", new, "--replicas", "4", objects=[node("a", cpu="8")])
    assert len(tried["placed"]) == 4
    (note,) = tried["notes"]
    assert reason.rpartition("stands: ")[2] in note


@pytest.mark.parametrize(("manifest", "field"), [
    (workload("Deployment", 0), "spec.replicas"),
    (workload("StatefulSet", 0), "spec.replicas"),
    (workload("Job", 0), "spec.parallelism"),
    (job(completions=0), "spec.completions"),
    (cron_job({"parallelism": 0}), "spec.jobTemplate.spec.parallelism"),
])  # fmt: skip
def test_what_asks_for_no_pods_is_named_beside_other_manifests(play: Play, manifest: Tree, field: str) -> None:
    tree = play("-f", play.write("new.yaml", manifest, pod("beside")), objects=[node("a")])
    assert list(nodes_of(tree)) == ["shop/beside"]
    assert [note for note in tree["notes"] if f"it asks for 0 pods ({field}: 0); with --replicas N" in note]


@pytest.mark.parametrize(("manifest", "count"), [
    pytest.param(job(completions=3), 3, id="no more than are to complete"),
    pytest.param(job(completions=9), 4, id="no more than run beside each other"),
    pytest.param(cron_job(), 4, id="of a cron job those of one of its jobs"),
    pytest.param(cron_job({"completions": 2}), 2, id="of a cron job no more than complete"),
    pytest.param(job(suspend=False, managedBy="kubernetes.io/job-controller"), 4, id="of the job controller"),
])  # fmt: skip
def test_a_job_begins_with_as_many_pods_as_its_controller_makes_at_first(
    play: Play, manifest: Tree, count: int
) -> None:
    tree = play("-f", play.write("new.yaml", manifest), objects=[node("a", cpu="16")])
    assert len(tree["placed"]) == count
    assert tree["notes"] == []


def test_the_pods_of_a_cron_jobs_jobs_are_bounded(play: Play) -> None:
    many = play.write("new.yaml", cron_job({"parallelism": 10**9}))
    assert "spec.jobTemplate.spec.parallelism: 1000000000 is not from 0 to 20000" in play.refused(
        "-f", many, objects=[node("a")]
    )


def owned_by(kind: str, name: str, **more: Any) -> Tree:
    return pod(name, cpu="100m", owner={**OWNER, "kind": kind, "name": "new"}, **more)


def test_a_daemon_set_that_exists_gets_pods_only_where_it_has_none(play: Play) -> None:
    """One that waits for its node is there, too; one that has ended is not."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
    required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    ended = deepcopy(owned_by("DaemonSet", "new-3", on="c")) | {"status": {"phase": "Failed"}}
    objects = [
        *map(node, "abcd"),
        owned_by("DaemonSet", "new-1", on="a"),
        owned_by("DaemonSet", "new-2", affinity=required),
        ended,
    ]
    new = play.write("new.yaml", workload("DaemonSet"))
    tree = play("-f", new, objects=objects)
    made = {each["pod"]: each["node"] for each in tree["placed"] if each["origin"] == "new"}
    assert made == {"shop/new-new-c": "c", "shop/new-new-d": "d"}
    exists = "DaemonSet shop/new exists with 2 pods, which stay as they are: these 2 come besides them"
    assert exists in tree["notes"]
    added = play("-f", new, "--add-nodes", "1:a", "--remove-node", "d", objects=objects)
    made = {each["pod"]: each["node"] for each in added["placed"] if each["origin"] == "new"}
    assert made == {"shop/new-new-c": "c", "shop/new-new-a-new-1": "a-new-1"}


@pytest.mark.parametrize("manifest", [workload("DaemonSet"), workload("StatefulSet", 1)], ids=lambda each: each["kind"])
def test_what_is_there_already_as_a_whole_is_no_mistake(play: Play, manifest: Tree) -> None:
    there = owned_by(manifest["kind"], "new-0", on="a")
    tree = play("-f", play.write("new.yaml", manifest), objects=[node("a"), there])
    assert tree["placed"] == []
    assert tree["notes"] == [f"{manifest['kind']} shop/new exists with 1 pod, which stays as it is: no other comes"]


def test_a_stateful_set_that_exists_gets_the_pods_that_it_does_not_have(play: Play) -> None:
    there = [owned_by("StatefulSet", f"new-{ordinal}", on="a") for ordinal in range(3)]
    tree = play("-f", play.write("new.yaml", workload("StatefulSet", 5)), objects=[node("a", cpu="8"), *there])
    assert list(nodes_of(tree)) == ["shop/new-3", "shop/new-4"]
    exists = "StatefulSet shop/new exists with 3 pods, which stay as they are: these 2 come besides them"
    assert tree["notes"] == [exists]
