"""Pods of an Indexed Job: runs on a Kubernetes cluster without anything installed there.

    ConfigMap NAME    the runs: policies with their files' text, workloads, seeds; gzip of JSON
    Job NAME          a shard of the runs for each completion index; an index that fails is retried twice
    pod               kscheduler sweep --shard FILE: a line with a marker for each run that is done, in its log
    here              reads the log of each pod that has ended, and deletes both when the Job is over

Rows come back through logs, so the only rights needed are to write Jobs and ConfigMaps and to read pods and logs. The
Job is named after the runs of the whole sweep: if the command is interrupted the Job keeps running, and the same
command finds it and collects its rows. A run whose row is lost with its pod (the node is gone, the log was rotated
away) is a row with an error, and the next command repeats it.

Traces and recordings are read from a volume claim, which is mounted under the same path as here; everything else is
sent with the runs.
"""

import asyncio
import base64
import gzip
import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.client.errors import APIError, ClientError
from kscheduler.client.rest import APIClient
from kscheduler.sweep.engines.engine import EngineError, Report, silence_output
from kscheduler.sweep.row import SweepRow
from kscheduler.sweep.run_spec import PlayedPolicy, RecordedWorkload, RunSpec, TraceWorkload, Workload

# Before a row in a pod's log.
MARKER: Final = "kscheduler-sweep-row: "
FILE: Final = "runs.json.gz"
_FOLDER: Final = "/sweep"
# Less than a ConfigMap holds: base64 and the rest of the object are larger.
_MAX_BYTES: Final = 700_000
# Between two requests for the Job's state.
_POLL_SECONDS: Final = 2.0
_INDEX: Final = "JOB_COMPLETION_INDEX"
_SHARDS: Final = "KSCHEDULER_SWEEP_SHARDS"
_LABELS: Final = {"app.kubernetes.io/name": "kscheduler-sweep", "app.kubernetes.io/managed-by": "kscheduler"}
# Shards for each pod that runs at a time: a pod that is lost loses one shard.
_SHARDS_PER_POD: Final = 4
_RETRIES: Final = 2
_CONFLICT: Final = 409

Tree = dict[str, Any]


class JobSettings(msgspec.Struct, frozen=True):
    """The Job of a sweep."""

    namespace: str
    image: str
    """Of kscheduler, of this version."""
    pods: int
    """That run at a time."""
    data_claim: str = ""
    """The PersistentVolumeClaim with traces and recordings."""


class ShippedRuns(msgspec.Struct, frozen=True):
    """Runs, each policy and workload once. A run: their places, and the seed."""

    version: str
    policies: tuple[PlayedPolicy, ...]
    workloads: tuple[Workload, ...]
    runs: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, specs: Sequence[RunSpec]) -> "ShippedRuns":
        """At least one spec."""
        policies = {msgspec.json.encode(spec.policy): spec.policy for spec in specs}
        workloads = {msgspec.json.encode(spec.workload): spec.workload for spec in specs}
        of_policy = {key: place for place, key in enumerate(policies)}
        of_workload = {key: place for place, key in enumerate(workloads)}
        runs = tuple(
            (of_policy[msgspec.json.encode(spec.policy)], of_workload[msgspec.json.encode(spec.workload)], spec.seed)
            for spec in specs
        )
        return cls(specs[0].version, tuple(policies.values()), tuple(workloads.values()), runs)

    def specs(self) -> list[RunSpec]:
        """In their original order."""
        return [
            RunSpec(self.policies[policy], self.workloads[workload], seed, self.version)
            for policy, workload, seed in self.runs
        ]

    def packed(self) -> bytes:
        """As the file that pods read."""
        return gzip.compress(msgspec.json.encode(self), mtime=0)


# --- in the pod -------------------------------------------------------------------------------------------------------


def run_shard(path: Path, environment: Mapping[str, str] = os.environ) -> int:
    """Execute the runs of this pod's index and print their rows. Raises `EngineError` outside of such a pod."""
    from kscheduler.sweep.running import run

    try:
        index, shards = int(environment[_INDEX]), int(environment[_SHARDS])
        specs = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=ShippedRuns).specs()
    except (KeyError, ValueError, OSError, EOFError) as problem:
        raise EngineError(f"--shard is for the pods of --on-cluster: {problem!r}") from None
    output = sys.stdout
    silence_output()
    for spec in specs[index::shards]:
        output.write(f"{MARKER}{msgspec.json.encode(run(spec)).decode()}\n")
        output.flush()
    return 0


def rows_in(log: bytes) -> Iterator[SweepRow]:
    """The rows in a pod's log; a truncated line is skipped."""
    for line in log.splitlines():
        _, found, row = line.partition(MARKER.encode())
        if found:
            try:
                yield msgspec.json.decode(row, type=SweepRow)
            except msgspec.DecodeError:
                continue


# --- here -------------------------------------------------------------------------------------------------------------


class IndexedJobEngine:
    """A Job in a cluster. Implements `SweepEngine`."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[APIClient]],
        settings: JobSettings,
        all_specs: Sequence[RunSpec],
        clock: Clock = REAL_CLOCK,
    ) -> None:
        """`all_specs`: those of the whole sweep; the Job's name is derived from them."""
        self._connect, self._settings, self._clock = connect, settings, clock
        keys = "".join(sorted({spec.key for spec in all_specs}))
        self.name = f"kscheduler-sweep-{sha256(keys.encode()).hexdigest()[:10]}"
        self._read_pods: set[str] = set()
        """UIDs of pods."""

    def rows(self, specs: Sequence[RunSpec], report: Report) -> Generator[SweepRow, None, None]:
        """Raises `EngineError`, `ClientError`."""
        from kscheduler.sweep.running import empty_row

        missing = {spec.key: spec for spec in specs}
        is_over = False
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            client = runner.run(stack.enter_async_context(self._connect()))
            try:
                report(runner.run(self._create_or_find(client, specs)))
                while not is_over:
                    found, is_over = runner.run(self._poll(client))
                    for row in found:
                        if missing.pop(row.key, None) is not None:
                            yield row
                    if missing and not is_over:
                        runner.run(self._clock.sleep(_POLL_SECONDS))
                    is_over = is_over or not missing
                for spec in missing.values():
                    yield empty_row(spec, f"no row of it is in the logs of Job {self._settings.namespace}/{self.name}")
                runner.run(self._delete(client))
            except GeneratorExit:
                report(f"Job {self._settings.namespace}/{self.name} goes on; the same command collects its rows")
                raise
            finally:
                runner.run(stack.aclose())

    async def _create_or_find(self, client: APIClient, specs: Sequence[RunSpec]) -> str:
        """Create the Job, or find it."""
        packed = ShippedRuns.of(specs).packed()
        if len(packed) > _MAX_BYTES:
            raise EngineError(f"the runs take {len(packed):,} bytes, more than a ConfigMap holds: --only makes fewer")
        job = job_manifest(self.name, self._settings, specs)
        where = f"Job {self._settings.namespace}/{self.name}"
        already_exists = False
        try:
            created = msgspec.json.decode(await client.post(self._jobs, msgspec.json.encode(job)))
        except APIError as refusal:
            if refusal.code != _CONFLICT:
                raise
            already_exists = True
            created = msgspec.json.decode(await client.get(f"{self._jobs}/{self.name}"))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self.name, "uid": created["metadata"]["uid"]}
        runs = runs_manifest(self.name, self._settings.namespace, packed, owner)
        try:
            # Also of a Job that is there: the command that created it may have been killed before this.
            await client.post(f"/api/v1/namespaces/{self._settings.namespace}/configmaps", msgspec.json.encode(runs))
        except ClientError as refusal:
            if not already_exists:
                await self._delete(client)  # its pods would wait for the runs forever
                raise
            if not (isinstance(refusal, APIError) and refusal.code == _CONFLICT):
                raise
        if already_exists:
            return f"{where} is there already: its rows are collected"
        return f"{where}: {job['spec']['completions']} shards, {job['spec']['parallelism']} pods at a time"

    async def _poll(self, client: APIClient) -> tuple[list[SweepRow], bool]:
        """The rows of pods that have ended since the last look, and whether the Job was over before."""
        job = msgspec.json.decode(await client.get(f"{self._jobs}/{self.name}"))
        pods = f"/api/v1/namespaces/{self._settings.namespace}/pods"
        selector = {"labelSelector": f"batch.kubernetes.io/job-name={self.name}"}
        found: list[SweepRow] = []
        for pod in msgspec.json.decode(await client.get(pods, selector))["items"]:
            metadata, phase = pod["metadata"], pod.get("status", {}).get("phase")
            if phase in ("Succeeded", "Failed") and metadata["uid"] not in self._read_pods:
                try:
                    found += rows_in(await client.get(f"{pods}/{metadata['name']}/log", accept="*/*"))
                except APIError as refusal:  # its node is gone, or it never ran
                    if refusal.code not in (400, 404, 500):
                        raise
                self._read_pods.add(metadata["uid"])
        conditions = job.get("status", {}).get("conditions") or ()
        ended = {each["type"] for each in conditions if each["status"] == "True"}
        return found, bool(ended & {"Complete", "Failed"})

    async def _delete(self, client: APIClient) -> None:
        """Delete the Job with its pods; the ConfigMap is its own."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        await client.delete(f"{self._jobs}/{self.name}", msgspec.json.encode(options))

    @property
    def _jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self._settings.namespace}/jobs"


def data_folder(specs: Sequence[RunSpec]) -> str:
    """The folder of all traces and recordings; empty: none is read."""
    found = set[str]()
    for spec in specs:
        workload = spec.workload
        if isinstance(workload, TraceWorkload):
            found.add(workload.directory)
        elif isinstance(workload, RecordedWorkload):
            path = Path(workload.path)
            found.add(str(path if path.is_dir() else path.parent))
    return os.path.commonpath(found) if found else ""


def job_manifest(name: str, settings: JobSettings, specs: Sequence[RunSpec]) -> Tree:
    """The Job: its pods run as nobody, with a file system that cannot be written but for /tmp."""
    shards = min(len(specs), settings.pods * _SHARDS_PER_POD)
    volumes: list[Tree] = [
        {"name": "runs", "configMap": {"name": name}},
        {"name": "tmp", "emptyDir": {}},
    ]
    mounts: list[Tree] = [
        {"name": "runs", "mountPath": _FOLDER, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  in the pod
    ]
    if settings.data_claim:
        claim = {"claimName": settings.data_claim, "readOnly": True}
        volumes.append({"name": "data", "persistentVolumeClaim": claim})
        mounts.append({"name": "data", "mountPath": data_folder(specs), "readOnly": True})
    container: Tree = {
        "name": "sweep",
        "image": settings.image,
        "args": ["sweep", "--shard", f"{_FOLDER}/{FILE}"],
        "env": [{"name": _SHARDS, "value": str(shards)}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    }
    pod: Tree = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": volumes,
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": settings.namespace, "labels": _LABELS},
        "spec": {
            "completionMode": "Indexed",
            "completions": shards,
            "parallelism": min(shards, settings.pods),
            "backoffLimitPerIndex": _RETRIES,
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
        },
    }


def runs_manifest(name: str, namespace: str, packed: bytes, owner: Tree) -> Tree:
    """The ConfigMap, which goes with the Job."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": _LABELS, "ownerReferences": [owner]},
        "binaryData": {FILE: base64.b64encode(packed).decode()},
    }
