"""A lane: one kscheduler behind a fault proxy of its own, nodes and two namespaces of its own, one fault at a time.

                  before        fault on                                   off      after
    sound         4 pods        4 pods, one that waits for a label                  pods until the nodes are full
    hurt                        8 pods or more; a bound pod goes away               the label comes

What pods need is all that the lane's nodes have, so a place that is not given back, a pod that is counted though it is
gone, or an object that was never seen leaves somebody pending. Several lanes share an API server: their pods select
their own nodes, and each sees the changes of the others go by.
"""

import itertools
import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.controlplane import kscheduler_process, kubeconfig
from tests.controlplane.controlplane import NAMESPACE
from tests.controlplane.process import Process, wait_until
from tests.controlplane.rest import Api, ApiStatusError, Object
from tests.e2e.audit import condition_text, name_of, overcommitted
from tests.e2e.conftest import create_namespace
from tests.e2e.faults.devices import Devices
from tests.e2e.faults.fault import Fault
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.faults.volumes import Volumes
from tests.e2e.provisioner import ZONE
from tests.e2e.recorder import Recorder
from tests.e2e.servers import Server

NODES, PODS_PER_NODE = 5, 4
PLACES = NODES * PODS_PER_NODE
BEFORE, LEAVING, SOUND, HURT = 4, 3, 4, 8
READY_SECONDS = 60.0
BEFORE_SECONDS = 20.0
# For pods of others while a fault hurts one namespace; without a fault it takes them a tenth of a second.
SPARED_SECONDS = 10.0
AGREE_SECONDS = 15.0
# After its time a fault stays so long at most, until it has met something and what it must make known is known. Watches
# back off for up to 36 s.
PATIENCE_SECONDS = 40.0
URGENT = "faults-urgent"
FALSE_ALARMS = re.compile(r"cache_drift|store_drift")
# What a fault may not be called whose answers are HTTP, or none.
FALSE_NAMES = re.compile(r"does not speak HTTP|err\":\"0 : ")
LANE = "lane"
# The one that the manifest's Role allows.
LEASE = (f"--leader-elect-resource-namespace={NAMESPACE}", "--leader-elect-resource-name=kscheduler")
MAX_REPORTED, MAX_LINES = 3, 30


@dataclass
class Outcome:
    """What a fault has done."""

    complaints: list[str] = field(default_factory=list)
    healed_seconds: float = 0.0
    """From the fault's end until every pod had its node."""
    met: int = 0
    log: str = ""
    """The warnings and errors of the time."""

    def text(self) -> str:
        """Alike complaints as one, then the log's last lines."""
        grouped: dict[str, list[str]] = {}
        for line in self.complaints:
            what, _, subject = line.partition(": ")
            grouped.setdefault(what, []).append(subject)
        reported = [f"{what} ({len(all_)}): {'; '.join(all_[:MAX_REPORTED])}" for what, all_ in grouped.items()]
        return "\n".join([*reported, *self.log.splitlines()[-MAX_LINES:]])


class Lane:
    """Plays faults one after the other while it is entered; not to be used by two threads."""

    def __init__(self, server: Server, recorder: Recorder, number: int, folder: Path) -> None:
        self.name = f"faults-{number}"
        self.sound, self.hurt = f"{self.name}-sound", f"{self.name}-hurt"
        self._api = Api(server.api.url, server.api.token, server.api.authority)
        self._server = server
        self._recorder = recorder
        self._folder = folder / self.name
        self._rounds = itertools.count(1)
        self._starts = itertools.count(1)
        self._process: Process | None = None
        self._elects = False
        self._watched: set[str] = set()
        self._stack = ExitStack()
        self._devices = Devices(self._api, self.name, self.hurt)
        self._volumes = Volumes(self._api, self.name, self.hurt)
        self.proxy = FaultProxy(server.identity("kscheduler"))

    def __enter__(self) -> Self:
        self._stack.enter_context(self.proxy)
        self._stack.callback(self._remove)
        for namespace in (self.sound, self.hurt):
            create_namespace(self._server, namespace)
        for number in range(NODES):
            self._api.create("/api/v1/nodes", self._node(f"{self.name}-{number}"))
            self._devices.publish(f"{self.name}-{number}", PODS_PER_NODE)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
        self._stack.close()
        self._api.close()

    # --- a round ----------------------------------------------------------------------------------------------------

    def play(self, fault: Fault) -> Outcome:
        """Plays one fault from a healthy scheduler to a healed one, and takes its pods away."""
        outcome = Outcome()
        try:
            process = self._healthy(elects=fault.elects)
            number = next(self._rounds)
            began = len(process.text())
            if fault.traffic == "preemption":
                self._preemption(fault, number, outcome)
            else:
                self._flow(fault, number, outcome)
            outcome.log = troubles(process.text()[began:])
            outcome.complaints += self._amiss(fault, process, began)
        finally:
            self.proxy.rest()
            if outcome.complaints or not outcome.healed_seconds:
                self._stop()
            self._clear()
        return outcome

    def _flow(self, fault: Fault, number: int, outcome: Outcome) -> None:
        before = self._add_pods(self.sound, f"{number}-before", BEFORE)
        self._wait_bound(BEFORE_SECONDS)
        with self._played(fault, outcome):
            self._api.patch(f"/api/v1/nodes/{self.name}-1", {"metadata": {"labels": {"touched": str(number)}}})
            for name in before[:LEAVING]:
                self._api.delete(f"{pods_path(self.sound)}/{name}", grace_seconds=0)
            self._add_pods(self.sound, f"{number}-waits", 1, cpu="1m", selector={"round": str(number)})
            many = fault.hurt_pods > HURT
            self._add_pods(self.hurt, f"{number}-hurt", fault.hurt_pods, "1m" if many else "1", needs=fault.traffic)
            sound = self._add_pods(self.sound, f"{number}-sound", SOUND)
            if fault.spares_others:
                late = self._pending_after(SPARED_SECONDS, self.sound, sound)
                outcome.complaints += [f"not bound beside the fault: {name}" for name in late]
        left = PLACES - (BEFORE - LEAVING) - SOUND - (0 if many else fault.hurt_pods)
        self._api.patch(f"/api/v1/nodes/{self.name}-0", {"metadata": {"labels": {"round": str(number)}}})
        self._add_pods(self.sound, f"{number}-after", left)
        self._heal(fault, outcome)

    def _preemption(self, fault: Fault, number: int, outcome: Outcome) -> None:
        """Full nodes; each pod of a higher priority needs the room of two."""
        self._add_pods(self.hurt, f"{number}-victim", PLACES)
        self._wait_bound(BEFORE_SECONDS)
        with self._played(fault, outcome):
            self._add_pods(self.sound, f"{number}-urgent", SOUND, cpu="2", priorityClassName=URGENT)
        self._add_pods(self.sound, f"{number}-after", 1, cpu="2", priorityClassName=URGENT)
        self._heal(fault, outcome)

    def _played(self, fault: Fault, outcome: Outcome) -> "_Playing":
        return _Playing(self, fault, outcome)

    def _heal(self, fault: Fault, outcome: Outcome) -> None:
        began = time.monotonic()
        outcome.complaints += self._wait_bound(fault.heals_within, may_restart=fault.elects)
        outcome.healed_seconds = time.monotonic() - began

    # --- the judge --------------------------------------------------------------------------------------------------

    def untrue_events(self) -> list[str]:
        """Pods that are said to be assigned and are not. Events are read first, so that a pod has had its time."""
        said = {
            f"{namespace}/{event['involvedObject']['name']}"
            for namespace in (self.sound, self.hurt)
            for event in self._api.items(f"/api/v1/namespaces/{namespace}/events", fieldSelector="reason=Scheduled")
        }
        pending = {name_of(pod) for pod in self._pods() if not pod["spec"].get("nodeName")}
        return [f"said to be assigned and is not: {name}" for name in sorted(said & pending)]

    def _amiss(self, fault: Fault, process: Process, began: int) -> Iterator[str]:
        text = process.text()[began:]
        pods = self._pods()
        if not process.running and not fault.elects:
            yield f"the process has ended: {process.tail()}"
            return
        yield from self.untrue_events()
        yield from (line for line in self._recorder.rebound() if self.name in line)
        nodes = self._api.items("/api/v1/nodes", labelSelector=f"{LANE}={self.name}")
        yield from overcommitted(nodes, pods)
        yield from self._devices.given_twice()
        yield from self._volumes.given_twice()
        for name, count in self.proxy.applied.items():
            if count > 1:
                yield f"pod {name} was bound {count} times"
        self.proxy.applied.clear()
        if "Traceback (most recent call last)" in text:
            yield f"a traceback: {text[text.index('Traceback') - 300 :][:3000]}"
        if fault.speaks_http:
            yield from (f"a wrong name: {line}" for line in text.splitlines() if FALSE_NAMES.search(line))
        if not fault.loses_events:
            yield from (f"a false alarm: {line}" for line in text.splitlines() if FALSE_ALARMS.search(line))
            yield from self._differences(process, pods)
        if not self.proxy.met[fault.id]:
            yield "the fault has met nothing"

    def _differences(self, process: Process, pods: list[Object]) -> list[str]:
        """Where the cache is not what the API server has, when there was time for the watch."""
        wanted = {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in pods}
        wanted = {uid: node for uid, node in wanted.items() if node}
        deadline = time.monotonic() + AGREE_SECONDS
        while (found := self._cached(process)) != wanted and time.monotonic() < deadline:
            time.sleep(0.2)
        names = {pod["metadata"]["uid"]: name_of(pod) for pod in pods}
        return [
            f"the cache has it elsewhere: {names.get(uid, uid)} on {found.get(uid)!r}, not {wanted.get(uid)!r}"
            for uid in sorted(found.keys() | wanted.keys())
            if found.get(uid) != wanted.get(uid)
        ]

    def _cached(self, process: Process) -> dict[str, str]:
        """The node of each confirmed pod on the lane's nodes, by UID; `assumed` ones with a question mark."""
        lines = kscheduler_process.own_page(process, "/debug/cache")[1].splitlines()
        nodes: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return {
            pod["uid"]: node["node"] + ("?" if pod.get("assumed") else "")
            for node in nodes
            if str(node.get("node", "")).startswith(f"{self.name}-")
            for pod in node["pods"]
        }

    def said(self, process: Process, patterns: set[str], began: int) -> set[str]:
        """Those of the patterns that log, metrics or readiness say."""
        if not patterns:
            return patterns
        text = process.text()[began:] + page(process, "/readyz?verbose") + page(process, "/metrics")
        return {pattern for pattern in patterns if re.search(pattern, text)}

    # --- the scheduler ----------------------------------------------------------------------------------------------

    def _healthy(self, *, elects: bool) -> Process:
        if self._process is None or not self._process.running or self._elects != elects:
            self._stop()
            self._elects = elects
            config = kubeconfig.write(self._folder / "proxied.json", server=self.proxy.url)
            folder = self._folder / str(next(self._starts))
            lease = LEASE if elects else ()
            self._process = kscheduler_process.process(config, folder, *lease, scheduler_name=self.name, elects=elects)
            self._process.start()
            self._watched.clear()
        process = self._process
        process.wait_until("ready", lambda: page(process, "/readyz").startswith("ok"), READY_SECONDS)
        # Also those that nobody's place depends on: else the next fault would find nothing to hurt.
        process.wait_until("all watches are open", self._is_watching, READY_SECONDS)
        return process

    def _is_watching(self) -> bool:
        """As many kinds as ever since the process was started."""
        open_now = self.proxy.watched()
        self._watched |= open_now
        return open_now == self._watched and "pods" in open_now

    def _stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def process(self) -> Process:
        assert self._process is not None
        return self._process

    # --- objects ----------------------------------------------------------------------------------------------------

    def _node(self, name: str) -> Object:
        capacity = {"cpu": f"{PODS_PER_NODE}200m", "memory": "64Gi", "pods": "250"}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {LANE: self.name, ZONE: self.name}},
            "status": status,
        }

    def _add_pods(
        self,
        namespace: str,
        prefix: str,
        count: int,
        cpu: str = "1",
        selector: dict[str, str] | None = None,
        *,
        needs: str = "",
        **spec: object,
    ) -> list[str]:
        names = [f"{prefix}-{number}" for number in range(count)]
        for number, name in enumerate(names):
            if needs == "claims":
                self._devices.add_claim(namespace, name)
                spec["resourceClaims"] = [{"name": "device", "resourceClaimName": name}]
            elif needs == "volumes":
                self._volumes.add_claim(name, is_local=number % 2 == 0)
                spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
            container = {"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
            whole = {
                "schedulerName": self.name,
                "containers": [container],
                "terminationGracePeriodSeconds": 0,
                "nodeSelector": {LANE: self.name} | (selector or {}),
            }
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole | spec}
            self._api.create(pods_path(namespace), pod)
        return names

    def _pods(self) -> list[Object]:
        return [pod for namespace in (self.sound, self.hurt) for pod in self._api.items(pods_path(namespace))]

    def _wait_bound(self, seconds: float, *, may_restart: bool = False) -> list[str]:
        """A line for each pod that is pending after so long."""
        deadline = time.monotonic() + seconds
        while True:
            waiting = [pod for pod in self._pods() if not pod["spec"].get("nodeName")]
            if not waiting or time.monotonic() >= deadline:
                return [f"pending after {seconds:.0f} s: {name_of(pod)}: {condition_text(pod)}" for pod in waiting]
            if may_restart and self._process is not None and not self._process.running:
                self._process.start()
            time.sleep(0.1)

    def _pending_after(self, seconds: float, namespace: str, names: list[str]) -> list[str]:
        """Those of the pods that have no node after so long."""
        deadline = time.monotonic() + seconds
        while True:
            pods = [pod for pod in self._api.items(pods_path(namespace)) if pod["metadata"]["name"] in names]
            late = [name_of(pod) for pod in pods if not pod["spec"].get("nodeName")]
            if not late or time.monotonic() >= deadline:
                return late
            time.sleep(0.05)

    def _clear(self) -> None:
        self._devices.clear()
        self._volumes.clear()
        for namespace in (self.sound, self.hurt):
            for kind in ("pods", "events"):
                self._api.delete(f"/api/v1/namespaces/{namespace}/{kind}", grace_seconds=0)
        wait_until("no pods", lambda: not self._pods(), 30)

    def _remove(self) -> None:
        self._clear()
        for number in range(NODES):
            self._api.delete(f"/api/v1/nodes/{self.name}-{number}", missing_ok=True)
            self._devices.withdraw(f"{self.name}-{number}")
        self._volumes.withdraw()
        for namespace in (self.sound, self.hurt):
            self._api.delete(f"/api/v1/namespaces/{namespace}", missing_ok=True)


class _Playing:
    """The fault is on inside it, for its time at least; before it ends, the judge looks."""

    def __init__(self, lane: Lane, fault: Fault, outcome: Outcome) -> None:
        self._lane = lane
        self._fault = fault
        self._outcome = outcome

    def __enter__(self) -> None:
        process = self._lane.process()
        self._began, self._log = time.monotonic(), len(process.text())
        self._lane.proxy.play(self._fault)

    def __exit__(self, kind: object, *_: object) -> None:
        lane, fault, outcome = self._lane, self._fault, self._outcome
        if kind is None:
            until = self._began + fault.seconds
            untold = set(fault.reported)
            # A scheduler that backs off comes late into some faults.
            while time.monotonic() < until or untold or not lane.proxy.met[fault.id]:
                untold -= lane.said(lane.process(), untold, self._log)
                if time.monotonic() > until + PATIENCE_SECONDS:
                    break
                time.sleep(0.1)
            outcome.complaints += [f"nothing says: {pattern}" for pattern in sorted(untold)]
            outcome.complaints += lane.untrue_events()
        lane.proxy.rest()
        outcome.met = lane.proxy.met[fault.id]


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def page(process: Process, path: str) -> str:
    """A page of its own, empty while it does not answer."""
    try:
        return kscheduler_process.own_page(process, path)[1]
    except OSError:
        return ""


def troubles(text: str) -> str:
    """The warnings and errors in a log."""
    return "\n".join(line for line in text.splitlines() if '"level":"info"' not in line)


def prepare(api: Api) -> None:
    """What lanes share: the priority class of preemptors, and the Lease's namespace."""
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": URGENT}, "value": 9}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    for path, body in (("/apis/scheduling.k8s.io/v1/priorityclasses", urgent), ("/api/v1/namespaces", namespace)):
        try:
            api.create(path, body)
        except ApiStatusError as error:
            if error.code != 409:
                raise
