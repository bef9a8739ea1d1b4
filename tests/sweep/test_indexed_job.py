"""Runs in pods of an Indexed Job: the embedded API server with its Job controller, and pods that a test plays.

What a kubelet would do is done here: a pod's shard is run in this process, and its output is the pod's log.
"""

import io
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kscheduler.client.access.connection import plain_connection
from kscheduler.client.rest import APIClient
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.controllers import catalogue
from kscheduler.embedded.controllers.engine.loop import running_controllers
from kscheduler.sweep.engines import indexed_job
from kscheduler.sweep.engines.engine import EngineError
from kscheduler.sweep.engines.indexed_job import (
    FILE,
    MARKER,
    IndexedJobEngine,
    JobSettings,
    ShippedRuns,
    job_manifest,
    rows_in,
    run_shard,
)
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import RecordedWorkload, RunSpec, TraceWorkload
from kscheduler.sweep.running import run
from tests.sweep.sweeps import DEFAULT, GPU, SHOP, TINY, reported, spec

SETTINGS = JobSettings("default", "registry.example/kscheduler:0.1.0", 2)
SPECS = [spec(workload=workload, seed=seed) for workload in (TINY, SHOP) for seed in range(5)]
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture(autouse=True)
def _logs_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod is a process of its own."""
    monkeypatch.setattr(indexed_job, "silence_output", lambda: None)


def output_of(index: int, shards: int, packed: bytes, folder: Path) -> bytes:
    """What a pod of this index prints."""
    path = folder / FILE
    path.write_bytes(packed)
    before, sys.stdout = sys.stdout, io.StringIO()
    try:
        run_shard(path, {"JOB_COMPLETION_INDEX": str(index), "KSCHEDULER_SWEEP_SHARDS": str(shards)})
        return sys.stdout.getvalue().encode()
    finally:
        sys.stdout = before


# --- runs that are sent -----------------------------------------------------------------------------------------------


def test_runs_arrive_as_they_were_sent() -> None:
    sent = ShippedRuns.of(SPECS)
    assert (len(sent.policies), len(sent.workloads)) == (1, 2)
    arrived = msgspec.json.decode(msgspec.json.encode(sent), type=ShippedRuns).specs()
    assert [each.key for each in arrived] == [each.key for each in SPECS]
    assert sent.packed() == sent.packed()


def test_each_run_is_in_one_shard(tmp_path: Path) -> None:
    packed = ShippedRuns.of(SPECS).packed()
    found = [row for index in range(3) for row in rows_in(output_of(index, 3, packed, tmp_path))]
    assert {row.key: row.without_measured() for row in found} == {
        each.key: run(each).without_measured() for each in SPECS
    }
    assert len(found) == len(SPECS)


def test_other_lines_of_a_log_and_one_that_is_cut_have_no_row(tmp_path: Path) -> None:
    log = output_of(0, len(SPECS), ShippedRuns.of(SPECS).packed(), tmp_path)
    assert [row.key for row in rows_in(b"hello\n2026-01-01T00:00:00Z stdout F " + log)] == [SPECS[0].key]
    assert list(rows_in(log[:-20])) == []
    assert list(rows_in(MARKER.encode() + b"{}\n")) == []


def test_a_shard_outside_of_a_pod_says_so(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="--shard is for the pods of --on-cluster"):
        run_shard(tmp_path / FILE, {})


def test_data_is_mounted_where_it_is_here() -> None:
    specs = [
        RunSpec(DEFAULT, TraceWorkload("t", "/data/traces/openb", "default", 1.3, "1"), 1, "v"),
        RunSpec(DEFAULT, RecordedWorkload("r", "/data/recordings/one.ksrec", "1", GPU), 1, "v"),
    ]
    job = job_manifest("sweep", msgspec.structs.replace(SETTINGS, data_claim="data"), specs)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert {"name": "data", "mountPath": "/data", "readOnly": True} in container["volumeMounts"]
    assert job["spec"]["completions"] == 2


# --- a Job ------------------------------------------------------------------------------------------------------------


class Pods(APIClient):
    """A client for which the pods of the Job run, a few at each look."""

    folder: Path
    fails: Sequence[int] = ()
    """Indexes whose pods leave no log."""
    packed = b""
    shards = 0

    async def play(self) -> None:
        pods = msgspec.json.decode(await super().get("/api/v1/namespaces/default/pods"))["items"]
        for pod in pods:
            if pod.get("status", {}).get("phase") == "Pending":
                status = {"status": {"phase": "Succeeded"}}
                path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
                await super().patch(path, msgspec.json.encode(status))

    async def get(self, path: str, params: Mapping[str, str] | None = None, **more: Any) -> bytes:
        if path.endswith("/log"):
            name = path.split("/")[-2]
            pod = msgspec.json.decode(await super().get(f"/api/v1/namespaces/default/pods/{name}"))
            index = int(pod["metadata"]["annotations"][INDEX])
            return b"" if index in self.fails else output_of(index, self.shards, self.packed, self.folder)
        if path.endswith("/pods"):
            await self.play()
        return await super().get(path, params, **more)


def engine(
    folder: Path, fails: Sequence[int] = (), left: list[list[str]] | None = None, *, already_exists: bool = False
) -> IndexedJobEngine:
    """With a cluster of its own. `left`: gets the names of the Jobs and ConfigMaps at the end; `already_exists`:
    whether the Job of an earlier command is running.
    """

    @asynccontextmanager
    async def connect() -> AsyncIterator[APIClient]:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(EmbeddedAPIServer(seed=1, admin=True))
            controllers = catalogue.make("job-controller")
            await stack.enter_async_context(running_controllers(server.registry, controllers))
            client = await stack.enter_async_context(Pods(plain_connection(server.url, {})))
            client.folder, client.fails = folder, fails
            client.packed, client.shards = ShippedRuns.of(SPECS).packed(), 8
            if already_exists:
                job = job_manifest(job_engine.name, SETTINGS, SPECS)
                await client.post("/apis/batch/v1/namespaces/default/jobs", msgspec.json.encode(job))
            yield client
            if left is not None:
                for path in ("/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/configmaps"):
                    items = msgspec.json.decode(await client.get(path))["items"]
                    left.append([each["metadata"]["name"] for each in items])

    job_engine = IndexedJobEngine(connect, SETTINGS, SPECS)
    return job_engine


def test_the_rows_of_a_job_are_those_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_job, "_POLL_SECONDS", 0.01)
    lines, report = reported()
    left: list[list[str]] = []
    rows = list(engine(tmp_path, left=left).rows(SPECS, report))
    assert {row.key: row.without_measured() for row in rows} == {
        each.key: run(each).without_measured() for each in SPECS
    }
    assert lines == [f"Job default/{engine(tmp_path).name}: 8 shards, 2 pods at a time"]
    assert left[0] == [], "the Job is deleted when it is over"


def test_rows_that_no_pod_has_printed_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_job, "_POLL_SECONDS", 0.01)
    _, report = reported()
    rows: dict[str, SweepRow] = {row.key: row for row in engine(tmp_path, fails=[3]).rows(SPECS, report)}
    assert [each.key for each in SPECS if rows[each.key].error] == [SPECS[3].key]
    assert "no row of it is in the logs of Job default/kscheduler-sweep-" in rows[SPECS[3].key].error


def test_who_stops_leaves_the_job_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_job, "_POLL_SECONDS", 0.01)
    lines, report = reported()
    left: list[list[str]] = []
    stopped = engine(tmp_path, left=left)
    rows = stopped.rows(SPECS, report)
    next(rows)
    rows.close()
    assert lines[-1] == f"Job default/{stopped.name} goes on; the same command collects its rows"
    assert [stopped.name in names for names in left] == [True, True]


def test_a_job_that_is_at_work_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_job, "_POLL_SECONDS", 0.01)
    lines, report = reported()
    missing = SPECS[4:]
    posted: list[str] = []

    async def post(self: Pods, path: str, *given: Any, **more: Any) -> bytes:
        posted.append(path)
        return await APIClient.post(self, path, *given, **more)

    monkeypatch.setattr(Pods, "post", post)
    rows = list(engine(tmp_path, already_exists=True).rows(missing, report))
    assert {row.key for row in rows} == {each.key for each in missing}
    assert lines[0].endswith("is there already: its rows are collected")
    assert posted[-1].endswith("/configmaps"), (
        "the command that created the Job was killed before it created the ConfigMap"
    )


def test_too_many_runs_for_a_config_map_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexed_job, "_MAX_BYTES", 10)
    _, report = reported()
    with pytest.raises(EngineError, match="more than a ConfigMap holds"):
        list(engine(tmp_path).rows(SPECS, report))
