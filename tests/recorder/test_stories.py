"""Stories with what takes more than one step: pod groups, Permit, volumes that are bound first, extenders."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from benchmarks.recorder.random_cluster import ZONES, QuickClock, RandomCluster
from kscheduler.aio.clock import VirtualClock
from kscheduler.api.codec import convert
from kscheduler.api.core import Pod
from kscheduler.api.groups import POD_GROUPS, KubernetesPodGroup
from kscheduler.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES, Kind
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from kscheduler.assembly import Ports
from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.config.feature_gates import FeatureGates, parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.framework.cluster.preemption import Candidate
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import Status, unschedulable
from kscheduler.in_memory.at_work import turns
from kscheduler.recorder.entries import Op
from kscheduler.recorder.flight_recorder import FlightRecorder
from kscheduler.recorder.redaction import NO_REDACTION, KeyedRedaction
from kscheduler.recorder.replaying.recorded_configuration import configured_as
from kscheduler.recorder.replaying.replay import Report
from kscheduler.recorder.replaying.replayed_scheduler import ReplayedScheduler
from kscheduler.recorder.report.state import replayed_state
from kscheduler.recorder.report.times import time_text
from kscheduler.recorder.segment_thread import SegmentThread, WriteSettings
from kscheduler.recorder.step_clock import MICROS
from kscheduler.scheduling import in_time
from kscheduler.scheduling.attempt_events import PodAwaitsOthersVictims
from kscheduler.scheduling.extenders.extender_results import UNASKED, ExtenderResults, ExtenderVictimResults
from tests.effort import sampled
from tests.recorder.recorded import record, replayed, written

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
GROUPS = ("red", "green", "blue", "black")
KEYS = pytest.mark.parametrize(
    "key", sampled([b"", b"0123456789abcdef"], 1, "records and replays once more"), ids=["with names", "redacted"]
)
Tree = dict[str, Any]


def assert_equal(report: Report) -> None:
    assert report.differences == []
    assert report.astray == []
    assert report.is_equal
    assert report.wrong_digests == 0 < report.digests


# --- pod groups -------------------------------------------------------------------------------------------------------


class GroupStory(RandomCluster):
    """Two of five pods are of a group: gangs of several sizes, and a basic one."""

    more_kinds: tuple[Kind, ...] = (POD_GROUPS,)

    def populate(self) -> None:
        super().populate()
        for number, name in enumerate(GROUPS):
            policy: Tree = {"gang": {"minCount": 2 + number}} if number else {"basic": {}}
            metadata = {"name": name, "namespace": "default", "uid": f"group-{number}"}
            group = {"metadata": metadata, "spec": {"schedulingPolicy": policy}}
            self._show(POD_GROUPS, "ADDED", convert(group, KubernetesPodGroup))

    def report(self, pod: Tree) -> None:
        if self._random.random() < 0.4:
            pod["spec"]["schedulingGroup"] = {"podGroupName": self._random.choice(GROUPS)}
            pod["spec"]["priority"] = 0


def test_a_member_backs_off_as_long_as_its_group_in_the_state_that_is_shown(tmp_path: Path) -> None:
    config = default_configuration("kscheduler", parse_feature_gates("GenericWorkload=true", version="1.37"))
    record(tmp_path, 250, 7, config=config, cluster_type=GroupStory)
    scheduler = replayed(tmp_path).scheduler
    assert scheduler is not None
    queue = scheduler.assembly.queue
    waiting = {each.pod: each for each in replayed_state(scheduler.assembly, 0).queue}
    groups = {key: group for key in waiting if (group := queue.waiting_group(key)) is not None}
    assert groups
    for key, group in groups.items():
        until = int(group.backoff_expiration * MICROS)
        assert waiting[key].backoff_until == (time_text(until) if waiting[key].place == "backoff" else None)
        assert waiting[key].attempts == group.attempts


@KEYS
def test_pod_groups_are_decided_as_recorded(key: bytes, tmp_path: Path) -> None:
    config = default_configuration("kscheduler", parse_feature_gates("GenericWorkload=true", version="1.37"))
    record(tmp_path, 250, 7, config=config, cluster_type=GroupStory, redaction_key=key)
    report = replayed(tmp_path).report
    assert_equal(report)
    assert report.decisions > 80


@pytest.mark.parametrize("seed", [7, 9])
def test_waiting_groups_are_put_back_from_each_snapshot(seed: int, tmp_path: Path) -> None:
    config = default_configuration("kscheduler", parse_feature_gates("GenericWorkload=true", version="1.37"))
    record(tmp_path, 250, seed, config=config, cluster_type=GroupStory, segment_bytes=6_000)
    report = replayed(tmp_path, each_segment=True).report
    assert_equal(report)
    assert report.segments > 1


class UpgradedGroupStory(GroupStory):
    """Groups that must not preempt; from the middle on, 1.38 is followed."""

    def populate(self) -> None:
        super().populate()
        for group in self.informers[POD_GROUPS].store.list():
            never = msgspec.structs.replace(group.spec, preemption_policy="Never")
            metadata = msgspec.structs.replace(group.metadata)
            self._show(POD_GROUPS, "MODIFIED", msgspec.structs.replace(group, metadata=metadata, spec=never))

    def report(self, pod: Tree) -> None:
        super().report(pod)
        if self.assembly.config.gates.version == "1.37" and self.decided > 40:
            now = default_configuration("kscheduler", parse_feature_gates("GenericWorkload=true", version="1.38"))
            self.assembly.apply(self.assembly.draft(now), lambda kind: self.informers[kind].store.list())


def test_pod_groups_are_read_again_where_a_recording_goes_on_under_another_version(tmp_path: Path) -> None:
    config = default_configuration("kscheduler", parse_feature_gates("GenericWorkload=true", version="1.37"))
    cluster = record(tmp_path, 250, 7, config=config, cluster_type=UpgradedGroupStory)
    replay = replayed(tmp_path)
    assert replay.scheduler is not None
    for assembly in (cluster.assembly, replay.scheduler.assembly):
        assert assembly.config.gates.version == "1.38"
        assert {group.preemption_policy for group in assembly.cache.pod_groups.groups()} == {"Never"}
    assert_equal(replay.report)


# --- volumes ----------------------------------------------------------------------------------------------------------


class VolumeStory(RandomCluster):
    """Claims wait for their first pod; the volumes are there, each in a zone. Implements `VolumeWriter`."""

    volumes = 0

    def _ports(self, journal: Any) -> Ports:
        return msgspec.structs.replace(super()._ports(journal), volume_writer=self)

    def populate(self) -> None:
        super().populate()
        local = StorageClass(provisioner="kubernetes.io/no-provisioner", volume_binding_mode="WaitForFirstConsumer")
        local.metadata.name = "local"
        self._show(STORAGE_CLASSES, "ADDED", local)

    def report(self, pod: Tree) -> None:
        if self._random.random() < 0.7:
            return
        self.volumes += 1
        number, name = self.volumes, f"disk-{self.volumes}"
        term = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [self._random.choice(ZONES)]}
        of_both = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
        volume = {
            "metadata": {"name": name, "uid": f"pv-{number:04}"},
            "spec": {
                **of_both,
                "capacity": {"storage": f"{number}Gi"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            },
            "status": {"phase": "Available"},
        }
        size = self._random.randrange(1, number + 1)
        claim = {
            "metadata": {"name": name, "namespace": "default", "uid": f"pvc-{number:04}"},
            "spec": {**of_both, "resources": {"requests": {"storage": f"{size}Gi"}}},
            "status": {"phase": "Pending"},
        }
        self._show(PERSISTENT_VOLUMES, "ADDED", convert(volume, PersistentVolume))
        self._show(PERSISTENT_VOLUME_CLAIMS, "ADDED", convert(claim, PersistentVolumeClaim))
        pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]

    async def bind_volume(self, volume: PersistentVolume) -> PersistentVolume | Status:
        taken = msgspec.structs.replace(volume, metadata=msgspec.structs.replace(volume.metadata))
        self._show(PERSISTENT_VOLUMES, "MODIFIED", taken)
        self._soon(lambda: self._bind_claim(taken))
        return taken

    def _bind_claim(self, volume: PersistentVolume) -> None:
        """As the controller of volumes does."""
        reference = volume.spec.claim_ref
        assert reference is not None
        claim = self.informers[PERSISTENT_VOLUME_CLAIMS].store.get(f"default/{reference.name}")
        if claim is not None and not claim.spec.volume_name:
            metadata = msgspec.structs.replace(claim.metadata, annotations={BIND_COMPLETED: "yes"})
            spec = msgspec.structs.replace(claim.spec, volume_name=volume.metadata.name)
            bound = msgspec.structs.replace(claim, metadata=metadata, spec=spec)
            self._show(PERSISTENT_VOLUME_CLAIMS, "MODIFIED", bound)

    async def select_node(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim | Status:
        raise AssertionError(f"{claim.key}: no volume is provisioned in this story")


@KEYS
def test_pods_whose_volumes_are_bound_first_are_decided_as_recorded(key: bytes, tmp_path: Path) -> None:
    cluster = record(tmp_path, 250, 8, cluster_type=VolumeStory, redaction_key=key)
    claims = cluster.informers[PERSISTENT_VOLUME_CLAIMS].store.list()
    assert len([claim for claim in claims if claim.spec.volume_name]) > 5
    assert_equal(replayed(tmp_path).report)


# --- Permit -----------------------------------------------------------------------------------------------------------

HOLDS = """
from kscheduler.framework.plugin import PermitResult, Plugin
from kscheduler.framework.status import SUCCESS, Code, Status

class Holds(Plugin):
    name = "Holds"

    def __init__(self, args, handle):
        pass

    def permit(self, cycle, pod, node_name):
        waits = pod.priority == 0 and pod.name[-1] in "13579"
        return PermitResult(Status(Code.WAIT) if waits else SUCCESS, 1.0)
"""
WITH_HOLDS = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: kscheduler, plugins: {permit: {enabled: [{name: Holds}]}}}]
"""


def test_waits_for_permit_that_are_over_are_decided_as_recorded(tmp_path: Path) -> None:
    plugin = tmp_path / "holds.py"
    plugin.write_text(HOLDS)
    with_it = ConfigurationReader(FeatureGates(), (str(plugin),)).read_bytes(WITH_HOLDS.encode(), "test")
    directory = tmp_path / "recording"
    record(directory, 250, 9, config=with_it.config, known=with_it.registry)
    report = replayed(directory, configure=partial(configured_as, plugins=(str(plugin),))).report
    assert_equal(report)
    assert b"timeout" in written(directory)


# --- decisions that are ended -----------------------------------------------------------------------------------------


class CostlyStory(RandomCluster):
    """Some pods cost much to decide about: more than their time, as a rule."""

    def report(self, pod: Tree) -> None:
        if self._random.random() < 0.3:
            words = [f"w{self._random.randrange(10**9)}" for _ in range(1_500)]
            terms = [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": word}}} for word in words]
            pod["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize("segment_bytes", [0, 100_000], ids=["one segment", "several"])
def test_ended_decisions_are_followed_and_the_turns_of_costly_pods_come_as_recorded(
    segment_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_time, "COSTLY_SECONDS", 0.002)
    clock = QuickClock(20.0)  # only where time passes by itself is a decision ended
    record(tmp_path, 250, 11, cluster_type=CostlyStory, segment_bytes=segment_bytes, clock=clock)
    report = replayed(tmp_path, each_segment=segment_bytes > 0).report
    assert_equal(report)
    assert report.followed["it was ended at its budget of processor time"] > 5
    assert sum(report.followed.values()) < report.decisions


# --- extenders --------------------------------------------------------------------------------------------------------


class Evaluators:
    """Rejects nodes for web pods, and takes its time. Implements `Extenders`."""

    def first_answers(self, pod: PodInfo) -> ExtenderResults | None:
        return UNASKED if pod.labels["app"] == "web" else None

    def line_of(self, pod: PodInfo) -> str:
        del pod
        return "http://judge"

    def binder_of(self, pod: Pod) -> str:
        del pod
        return ""

    async def about_nodes(self, pod: PodInfo, names: Sequence[str]) -> ExtenderResults:
        del pod
        await turns(2)
        queried = frozenset(names)
        left = frozenset(name for name in names if name[-1] in "02468")
        no = dict.fromkeys(queried - left, unschedulable("an odd number", plugin="Extender"))
        return ExtenderResults(queried, left, no, rejected_by=dict.fromkeys(no, "http://judge"))

    async def about_victims(
        self, pod: PodInfo, candidates: Sequence[Candidate], pods_on: Mapping[str, Mapping[str, PodInfo]]
    ) -> ExtenderVictimResults:
        del pod, candidates, pods_on
        return ExtenderVictimResults()

    async def bind(self, pod: Pod, node_name: str) -> Status | None:
        del pod, node_name
        return None


class ExtenderStory(RandomCluster):
    """Some pods are judged by an extender too."""

    def _ports(self, journal: Any) -> Ports:
        return msgspec.structs.replace(super()._ports(journal), extenders=lambda _: Evaluators())


@KEYS
def test_pods_that_concern_extenders_are_followed_and_all_others_decided_as_recorded(
    key: bytes, tmp_path: Path
) -> None:
    record(tmp_path, 250, 10, cluster_type=ExtenderStory, redaction_key=key)
    report = replayed(tmp_path).report
    assert_equal(report)
    assert 0 < sum(report.followed.values()) < report.decisions
    assert all("extenders" in reason for reason in report.followed)


class GroupsWithExtenders(GroupStory):
    """Members of groups are judged by an extender too."""

    def _ports(self, journal: Any) -> Ports:
        return msgspec.structs.replace(super()._ports(journal), extenders=lambda _: Evaluators())


def test_what_extenders_say_about_groups_is_recorded_and_decides_them_again(tmp_path: Path) -> None:
    config = default_configuration("kscheduler", parse_feature_gates("GenericWorkload=true", version="1.37"))
    record(tmp_path, 250, 7, config=config, cluster_type=GroupsWithExtenders)
    report = replayed(tmp_path).report
    assert_equal(report)
    assert report.decisions > 80
    assert b"an odd number" in written(tmp_path)


def test_a_recording_without_names_leaves_such_answers_out(tmp_path: Path) -> None:
    """Whether hashed reasons add up as the real ones did cannot be known: it goes on with the next snapshot."""
    config = default_configuration("kscheduler", parse_feature_gates("GenericWorkload=true", version="1.37"))
    record(tmp_path, 250, 7, config=config, cluster_type=GroupsWithExtenders, redaction_key=b"0123456789abcdef")
    report = replayed(tmp_path).report
    assert not report.differences
    assert report.decisions
    assert b"an odd number" not in written(tmp_path)


@KEYS
def test_a_pod_that_waits_for_the_victims_of_another_one_is_woken_in_the_replay_too(key: bytes, tmp_path: Path) -> None:
    """Its decision is followed and not made again, so the recording must say that it waits."""
    recorder = FlightRecorder(SegmentThread(WriteSettings(tmp_path, "x", 1, 1, 1.0)), VirtualClock())
    first = PodInfo(Pod(metadata=ObjectMeta(name="first", namespace="shop")))
    recorder.continues_in_background(PodAwaitsOthersVictims(first, "node-1"))
    entry = (Op.LATER, 7, first.key, False, "", recorder._take_outputs())
    redaction = KeyedRedaction(key) if key else NO_REDACTION
    packed = redaction.entry(entry)
    assert ("first" in str(packed)) == ("node-1" in str(packed)) == (not key)
    queried: list[tuple[str, PodInfo]] = []
    evictions = SimpleNamespace(is_clearing=lambda node, pod: queried.append((node, pod)))
    replay: Any = SimpleNamespace(assembly=SimpleNamespace(cache=None, evictions=evictions))
    ReplayedScheduler._make_room(replay, first, packed[-1])
    assert queried == [(redaction.text("node-1"), first)]
