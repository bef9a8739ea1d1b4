"""A decision that takes too long is ended: its pod fails alone, and nothing else can tell."""

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import msgspec
import pytest

from kscheduler.aio.clock import REAL_CLOCK, VirtualClock
from kscheduler.aio.collector import setting_aside
from kscheduler.api.core import Pod
from kscheduler.assembly import Assembly, Ports
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cluster.topology import CountColumn
from kscheduler.framework.decision_time import DECISION_TIME, DecisionEndedError
from kscheduler.framework.pods.affinity_terms import PodMatch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Code, Fault
from kscheduler.informers.transform import default_transform
from kscheduler.plugins.in_tree import registry
from kscheduler.plugins.node_affinity import NodeAffinity
from kscheduler.scheduling import in_time
from kscheduler.scheduling.in_time import TimedCycles
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.scheduling.supervision.alarm import ALARM, WATCH_SECONDS, InDecision
from kscheduler.state.row_check import row_fault
from tests.builders import Tree, make_node, make_pod, pod_tree
from tests.effort import sampled
from tests.scheduling.around import ReportedFailures
from tests.scheduling.scheduler_in_memory import SchedulerInMemory

NAME = "kscheduler"
ZONE = "topology.kubernetes.io/zone"
FOREVER = 20.0


class World(SchedulerInMemory):
    """A cluster of a few nodes with pods on them."""

    def __init__(self, nodes: int = 6) -> None:
        super().__init__(default_configuration(NAME))
        self.cycles = TimedCycles(REAL_CLOCK, self.cache, self.queue.costly_tried)
        for number in range(nodes):
            labels = {ZONE: f"zone-{number % 3}", "kubernetes.io/hostname": f"node-{number}", "disk": "ssd"}
            room = {"cpu": "4", "memory": "8Gi", "pods": "9"}
            self.add(make_node(f"node-{number}", labels=labels, **room), initial=True)
        for number in range(nodes):
            labels = {"app": f"a{number % 2}"}
            self.add(make_pod(f"running-{number}", node=f"node-{number}", labels=labels, requests={"cpu": "3"}))

    def judge(self, pod: Pod) -> SchedulingRecord:
        """A decision as the service makes it; nothing is assumed."""
        assembly = self.assembly
        engine = assembly.scheduler.engines[NAME]
        return self.cycles.schedule(QueuedPodInfo(PodInfo(pod)), assembly.profiles[NAME], engine=engine)

    def decisions(self) -> list[tuple[str, str, tuple[str, ...]]]:
        """What is decided about a pod of each shape, one after the other; each stays where it was put."""
        found = []
        for number, pod in enumerate(shapes("later")):
            record = self.judge(pod)
            victims = () if record.preemption is None else tuple(sorted(v.name for v in record.preemption.victims))
            found.append((record.node_name, record.message, victims))
            if record.node_name:
                placed = make_pod(
                    f"placed-{number}", node=record.node_name, labels=pod.metadata.labels, requests={"cpu": "100m"}
                )
                self.add(placed)
        return found


def shapes(prefix: str) -> list[Pod]:
    """Pods that make each in-tree plugin with tables of its own fill them."""
    apart = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "a1"}}}
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a0"}}}
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "s"}},
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    expression = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-1"]}
    fields: list[Tree] = [
        {"nodeSelector": {"disk": "ssd"}},
        {"affinity": {"podAntiAffinity": {required: [apart]}}},
        {"affinity": {"podAffinity": {preferred: [{"weight": 5, "podAffinityTerm": near}]}}},
        {
            "labels": {"app": "s"},
            "topologySpreadConstraints": [spread, {**spread, "whenUnsatisfiable": "ScheduleAnyway"}],
        },
        {"affinity": {"nodeAffinity": {required: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}},
        {"priority": 100, "requests": {"cpu": "2"}},
        {"tolerations": [{"operator": "Exists"}], "requests": {"cpu": "100"}},
    ]
    return [make_pod(f"{prefix}-{number}", **each) for number, each in enumerate(fields)]


class CutAt:
    """Ends the decision at the n-th line where the timer might; counts these lines."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> "Callable[..., Any]":
        if event == "line" and in_time._may_end(frame):
            self.lines += 1
            if self.lines == self.number:
                raise DecisionEndedError
        return self

    def judged(self, world: World, pod: Pod) -> SchedulingRecord:
        tracer = sys.gettrace()
        sys.settrace(self)
        try:
            return world.judge(pod)
        finally:
            sys.settrace(tracer)


@pytest.mark.parametrize("shape", sampled(range(len(shapes(""))), 2, "a decision is ended at hundreds of lines"))
def test_wherever_a_decision_is_ended_later_ones_are_as_if_it_had_never_begun(
    shape: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At evenly spaced lines of those where the timer may strike, with the class engine in use."""
    # The collector of a process with thousands of tests behind it takes longer than later pods of the namespace have.
    monkeypatch.setattr(in_time, "AGAIN_SECONDS", in_time.LONGEST_SECONDS)
    expected = World().decisions()
    world, counting = World(), CutAt(0)
    world.decisions()
    for pod in shapes("first"):
        world.judge(pod)
    counting.judged(world, shapes("ended")[shape])
    fresh = CutAt(0)
    fresh.judged(World(), shapes("ended")[shape])
    assert fresh.lines > 100
    for number in range(1, fresh.lines, max(1, fresh.lines // 25)):
        world = World()
        record = CutAt(number).judged(world, shapes("ended")[shape])
        assert record.status.fault is Fault.OVER_BUDGET
        assert not record.node_name
        assert world.decisions() == expected, f"ended at line {number} of {fresh.lines}"
        assert [row_fault(world.assembly.cache, name) for name in world.assembly.cache.node_names()] == [None] * 6
    # The same with tables that are full already.
    for number in range(1, counting.lines, max(1, counting.lines // 8)):
        world = World()
        for pod in shapes("first"):
            world.judge(pod)
        CutAt(number).judged(world, shapes("ended")[shape])
        assert world.decisions() == expected, f"ended at line {number} of {counting.lines}, when all was known"


# --- where a decision may be left -------------------------------------------------------------------------------------


def in_a_decision(module: str, monkeypatch: pytest.MonkeyPatch) -> InDecision:
    """Where a signal finds the decision that interrupts a function of this module, called by a filter."""
    found: list[InDecision] = []

    def look() -> None:
        found.append(in_time._find(sys._getframe()))

    inner = FunctionType(look.__code__, {**globals(), "__name__": module}, closure=look.__closure__)

    def filters(self: object, cycle: object, pod: PodInfo, nodes: object, rows: object) -> None:
        inner()

    outer = as_if_in("kscheduler.plugins.node_affinity", filters)
    with monkeypatch.context() as patched:
        patched.setattr(NodeAffinity, "filter", outer)
        World(nodes=1).judge(make_pod("pod", nodeSelector={"disk": "ssd"}))
    (where,) = set(found)
    return where


def is_there(name: str) -> bool:
    """Whether a module exists, or a package, whose name ends with a dot here."""
    spec = importlib.util.find_spec(name.removesuffix("."))
    return spec is not None and (spec.submodule_search_locations is not None) == name.endswith(".")


@pytest.mark.parametrize("name", in_time._KEEPING)
def test_between_two_statements_of_what_keeps_something_no_decision_ends(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_there(name), "it was moved, and guards nothing here"
    assert name.startswith(in_time._DECIDING), "no decision ends there anyway"
    assert in_a_decision(name + "any" if name.endswith(".") else name, monkeypatch) is InDecision.BETWEEN


@pytest.mark.parametrize("name", in_time._DECIDING)
def test_in_the_rooms_that_decide_a_decision_may_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_there(name), "it was moved, and no decision ends there"
    expected = InDecision.BETWEEN if name.startswith(in_time._KEEPING) else InDecision.MAY_END
    assert in_a_decision(f"{name}any", monkeypatch) is expected


def test_outside_of_decisions_nothing_is_ended() -> None:
    assert in_time._find(sys._getframe()) is InDecision.ELSEWHERE


# Modules with a bounded table that need no guard: what they put into it is complete, and they do so in one step.
KEPT_AS_A_WHOLE = (
    "kscheduler.framework.nodes.node_table",
    "kscheduler.framework.pods.requests",
    "kscheduler.plugins.policies.node_cost",
)


def test_modules_with_a_table_of_their_own_are_guarded() -> None:
    root = Path(in_time.__file__).parents[2]
    for file in sorted((root / "kscheduler").rglob("*.py")):
        module = ".".join(file.relative_to(root).with_suffix("").parts)
        if module.startswith(in_time._DECIDING) and "from kscheduler.bounded." in file.read_text():
            assert module.startswith(in_time._KEEPING) or module in KEPT_AS_A_WHOLE, module


# --- with the real timer ----------------------------------------------------------------------------------------------


@pytest.fixture
def budget(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(in_time, "LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(in_time, "COSTLY_SECONDS", 0.02)
    yield
    assert not DECISION_TIME.is_up, "the next decision has its time"


def as_if_in(module: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as code of this module: the timer looks at modules."""
    return FunctionType(function.__code__, {**function.__globals__, "__name__": module}, closure=function.__closure__)


def _loops(self: object, cycle: object, pod: PodInfo, nodes: object, rows: object) -> None:
    end = time.perf_counter() + FOREVER
    while time.perf_counter() < end:
        pass


@pytest.mark.usefixtures("budget")
def test_a_decision_of_unknown_shape_is_ended_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """In-tree code that does not end: nobody has thought of such a pod."""
    world, pod = World(), make_pod("strange", nodeSelector={"disk": "ssd"})
    with monkeypatch.context() as patched:
        patched.setattr(NodeAffinity, "filter", as_if_in("kscheduler.plugins.node_affinity", _loops))
        began = time.thread_time()
        record = world.judge(pod)
        # The timer finds a decision that it was not told of, late on a busy machine, and only then its time begins.
        assert time.thread_time() - began < FOREVER / 4
    assert record.status.code is Code.ERROR
    assert record.status.fault is Fault.OVER_BUDGET
    assert record.message == (
        "the decision about this pod was ended after 50ms of processor time, so that others need not wait for it: "
        "spec.nodeSelector has 1 entries, spec.containers and spec.initContainers has 1 entries"
    )
    assert world.judge(pod).node_name


@pytest.mark.usefixtures("budget")
def test_after_one_decision_of_unknown_shape_its_namespace_has_less_time_and_others_have_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be the first of a hundred pods of a template: else each of them would hold the loop for two seconds."""
    monkeypatch.setattr(in_time, "AGAIN_SECONDS", 0.01)
    world, texts = World(), list[str]()
    with monkeypatch.context() as patched:
        patched.setattr(NodeAffinity, "filter", as_if_in("kscheduler.plugins.node_affinity", _loops))
        for name, namespace in (("first", "theirs"), ("second", "theirs"), ("other", "ours")):
            texts.append(world.judge(make_pod(name, namespace=namespace, nodeSelector={"disk": "ssd"})).message)
    assert [text.partition("after ")[2].partition(" of")[0] for text in texts] == ["50ms", "10ms", "50ms"]
    assert world.judge(make_pod("sound", namespace="theirs", nodeSelector={"disk": "ssd"})).node_name
    until = world.cycles._overran["theirs"]
    assert until - REAL_CLOCK.monotonic() <= in_time.REMEMBERED_SECONDS
    world.cycles._overran["theirs"] = REAL_CLOCK.monotonic()
    assert not world.cycles._has_overrun("theirs"), "ten minutes later it is forgotten"
    assert "theirs" not in world.cycles._overran


@pytest.mark.usefixtures("budget")
def test_who_asks_the_state_again_and_again_is_ended_at_its_door(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is never left in the middle, so the timer finds no place there."""
    world, queried = World(), []
    counters = world.assembly.cache.counters
    counted = counters._counted

    def slow(match: PodMatch) -> CountColumn:
        queried.append(match)
        end = time.thread_time() + 0.005
        while time.thread_time() < end:
            pass
        return counted(match)

    monkeypatch.setattr(counters, "_counted", as_if_in("kscheduler.state.topology.counters", slow))
    terms = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": f"b{number}"}}} for number in range(400)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    record = world.judge(make_pod("asks", affinity=affinity))
    assert record.status.fault is Fault.OVER_BUDGET
    # As above: its time begins when the timer has found it, and each question takes 5 ms of it.
    assert len(queried) <= (2 * WATCH_SECONDS + 0.05) / 0.005 < len(terms)


def test_whoever_decides_about_waiting_pods_does_so_in_time() -> None:
    """Pods alone, groups, extenders, searches, resizes: each cycle of theirs has the one budget."""
    scheduling = Path(in_time.__file__).parent
    own = "from kscheduler.scheduling.cycle.schedule import schedule"
    deciding = [*(scheduling / "attempt").glob("*.py"), scheduling / "resize_attempts.py"]
    assert [file.name for file in deciding if own in file.read_text()] == []
    assert sum("TimedCycles" in file.read_text() for file in deciding) == 4


def test_in_virtual_time_no_decision_is_ended() -> None:
    """What is simulated or replayed comes out the same on a slow machine."""
    world = World()
    assembly, began = world.assembly, list[Any]()
    profile, pod = assembly.profiles[NAME], QueuedPodInfo(PodInfo(make_pod("pod")))
    cycles = TimedCycles(VirtualClock(), assembly.cache, began.append)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ALARM, "is_watching", False)
        patched.setattr(ALARM, "watch_decisions", began.append)
        assert cycles.schedule(pod, profile).node_name
        pod.overruns = 1
        assert cycles.schedule(pod, profile).node_name
    assert not began


@pytest.mark.usefixtures("budget")
def test_a_pod_that_was_ended_waits_longer_each_time_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    assembly = world.assembly
    pod = make_pod("strange", nodeSelector={"disk": "ssd"})

    def over(*given: Any, **named: Any) -> SchedulingRecord:
        return in_time._ended(assembly.profiles[NAME], PodInfo(pod), assembly.cache, "80ms")

    monkeypatch.setattr(TimedCycles, "schedule", over)
    world.add(pod)
    for overruns, seconds in ((1, 10), (2, 20), (3, 40)):
        now = assembly.clock.time()
        queued = assembly.queue.pop_nowait(now)
        assert queued is not None
        assert assembly.scheduler.decide(queued) is None
        assert queued.overruns == overruns
        assert now + seconds - 1 <= queued.backoff_expiration <= now + seconds
        _, condition, note = world.reported.reports[-1]
        assert (condition.reason, condition.message) == ("SchedulerError", note)
        assert "spec.nodeSelector has 1 entries" in note
        assembly.queue.activate([queued.key], now)
    assert assembly.cache.pod_of(pod.metadata.uid) is None


# --- giants on a thousand nodes ---------------------------------------------------------------------------------------

NODES = 1000
# For which the event loop may be held: processor time.
MAX_SECONDS = 0.2


def _keys(number: int) -> list[str]:
    return [f"key-{each}" for each in range(number)]


def _node_terms(*terms: Tree) -> Tree:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def _pod_terms(field: str, rule: str, operator: str) -> Tree:
    terms: list[Tree] = []
    for key in _keys(6000):
        values = {"values": ["x"]} if operator.endswith("In") else {}
        selector = {"matchExpressions": [{"key": key, "operator": operator, **values}]}
        term = {"topologyKey": ZONE, "namespaceSelector": {}, "labelSelector": selector}
        terms.append(term if rule.startswith("required") else {"weight": 1, "podAffinityTerm": term})
    return {"affinity": {field: {f"{rule}DuringSchedulingIgnoredDuringExecution": terms}}}


HOST = "kubernetes.io/hostname"
GIANTS: dict[str, Tree] = {
    "70,000 keys of nodeSelector": {"nodeSelector": dict.fromkeys(_keys(70_000), "x")},
    "10,000 keys of nodeSelector, and one that nodes have": {
        "nodeSelector": {**dict.fromkeys(_keys(10_000), "x"), ZONE: "zone-1"}
    },
    "20,000 expressions DoesNotExist": _node_terms(
        {"matchExpressions": [{"key": key, "operator": "DoesNotExist"} for key in _keys(20_000)]}
    ),
    "12,000 expressions NotIn on the host name": _node_terms(
        {"matchExpressions": [{"key": HOST, "operator": "NotIn", "values": [key]} for key in _keys(12_000)]}
    ),
    "18,000 terms Exists": _node_terms(
        *({"matchExpressions": [{"key": key, "operator": "Exists"}]} for key in _keys(18_000))
    ),
    "12,000 terms on host names": _node_terms(
        *({"matchExpressions": [{"key": HOST, "operator": "In", "values": [key]}]} for key in _keys(12_000))
    ),
    "60,000 values of the host name": _node_terms(
        {"matchExpressions": [{"key": HOST, "operator": "In", "values": _keys(60_000)}]}
    ),
    "15,000 names of nodes": _node_terms(
        *({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [key]}]} for key in _keys(15_000))
    ),
    "6,000 required anti-affinity terms": _pod_terms("podAntiAffinity", "required", "NotIn"),
    "6,000 required affinity terms": _pod_terms("podAffinity", "required", "DoesNotExist"),
    "6,000 preferred terms": _pod_terms("podAffinity", "preferred", "DoesNotExist"),
    "20,000 resources": {"requests": {f"example.com/{key}": "1" for key in _keys(20_000)}},
    "30,000 resources, each of another amount": {
        "requests": {f"a.b/{number:x}": str(number + 1) for number in range(30_000)}
    },
    "90,000 resources that no scheduler counts": {"requests": dict.fromkeys([f"{n:x}" for n in range(90_000)], "1")},
    "20,000 tolerations": {"tolerations": [{"key": key, "operator": "Exists"} for key in _keys(20_000)]},
    "30,000 labels": {"labels": dict.fromkeys(_keys(30_000), "x")},
    "6,000 spread constraints": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
            for key in _keys(6000)
        ]
    },
    "14,000 containers": {"containers": [{"name": key, "image": key} for key in _keys(14_000)]},
    "5,000 sidecars with resources": {
        "initContainers": [
            {"name": key, "restartPolicy": "Always", "resources": {"requests": {f"example.com/{key}": "1"}}}
            for key in _keys(5000)
        ]
    },
    "30,000 ports": {
        "containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": each} for each in range(1, 30_001)]}]
    },
    "12,000 volumes": {
        "volumes": [{"name": key, "persistentVolumeClaim": {"claimName": key}} for key in _keys(12_000)]
    },
    "10,000 disks": {"volumes": [{"name": key, "gcePersistentDisk": {"pdName": key}} for key in _keys(10_000)]},
    "40,000 gates": {"schedulingGates": [{"name": key} for key in _keys(40_000)]},
}


class Loop:
    """The service's steps in a cluster of a thousand nodes, each with its processor time."""

    def __init__(self) -> None:
        self.known: dict[str, Pod] = {}
        ports = Ports(pod_of=self.known.get, statuses=ReportedFailures())
        self.assembly = Assembly(default_configuration(NAME), registry(), ports, REAL_CLOCK)
        self.seconds: dict[str, float] = {}
        self.transform = default_transform("pods")
        self.number = 0
        for number in range(NODES):
            labels = {ZONE: f"zone-{number % 3}", HOST: f"node-{number}"}
            room = {"cpu": "64", "memory": "256Gi", "pods": "250"}
            self.assembly.node_handler.on_add(make_node(f"node-{number}", labels=labels, **room), initial=True)
        for number in range(NODES):
            pod = make_pod(f"running-{number}", node=f"node-{number}", labels={"app": f"app-{number % 100}"})
            self.assembly.pod_handler.on_add(pod, initial=True)

    def step(self, name: str, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        began = time.thread_time()
        try:
            return work(*arguments, **named)
        finally:
            self.seconds[name] = time.thread_time() - began

    def decide(self, name: str) -> None:
        queued = self.assembly.queue.pop_nowait(self.assembly.clock.time())
        if queued is not None:
            self.step(name, self.assembly.scheduler.decide, queued)

    def read(self, name: str, body: bytes) -> Pod:
        pod: Pod = self.step(f"{name}: decode", msgspec.json.Decoder(Pod).decode, body)
        self.step(f"{name}: transform", self.transform, pod)
        return pod

    def play(self, fields: Tree) -> None:
        """A giant that waits, one that somebody else has put on a node, and plain pods beside both."""
        assembly, self.number = self.assembly, self.number + 1
        handler, tree = (
            assembly.pod_handler,
            pod_tree("giant", namespace="hostile", uid=f"giant-{self.number}", **fields),
        )
        pod = self.known["hostile/giant"] = self.read("it comes", json.dumps(tree).encode())
        for _ in range(5):
            assembly.queue.flush_backoff(assembly.clock.time())  # five seconds pay for the giant before
        self.step("it is queued", handler.on_add, pod, initial=False)
        self.decide("it is decided about")
        labels = {ZONE: "zone-0", HOST: "node-0", "news": str(self.number)}
        old = assembly.cache.nodes.info(assembly.cache.nodes.row_of("node-0")).node
        assert old is not None
        node = make_node("node-0", labels=labels, cpu="64", memory="256Gi", pods="250")
        self.step("a node changes", assembly.node_handler.on_update, old, node)
        changed = self.read(
            "it changes", json.dumps({**tree, "metadata": {**tree["metadata"], "resourceVersion": "2"}}).encode()
        )
        self.step("its change is handled", handler.on_update, pod, changed)
        self.step("it goes", handler.on_delete, changed)
        tree["spec"]["nodeName"], tree["metadata"]["uid"] = "node-1", f"bound-{self.number}"
        bound = self.read("it is bound", json.dumps(tree).encode())
        self.step("it counts", handler.on_add, bound, initial=False)
        for place in range(3):
            plain = make_pod(f"plain-{self.number}-{place}", labels={"app": f"new-{self.number}-{place}"})
            handler.on_add(plain, initial=False)
            self.decide(f"another is decided about {place}")
            handler.on_delete(plain)
        self.step("it ends", handler.on_delete, bound)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with setting_aside():
        yield Loop()


@pytest.mark.parametrize("fields", sampled(GIANTS.values(), 5, "objects of 100 kB"), ids=GIANTS)
def test_no_giant_holds_the_loop_in_any_step(loop: Loop, fields: Tree) -> None:
    loop.seconds.clear()
    loop.play(fields)
    held = {step: round(seconds, 3) for step, seconds in loop.seconds.items() if seconds > MAX_SECONDS}
    assert not held, f"of {loop.seconds}"
    assert max(loop.seconds[f"another is decided about {place}"] for place in range(3)) < 0.1
