"""Recordings of pods with claims, under two configurations: no device is given to two claims; volumes are followed."""

from collections import Counter
from pathlib import Path

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.kinds import PODS, RESOURCE_CLAIMS
from kscheduler.assembly.configured import Configured
from kscheduler.config.loader import load_bytes
from kscheduler.in_memory.claims import claim_keys
from kscheduler.recorder.alternatives.comparing import RecordedRun, compared, of_snapshot
from kscheduler.recorder.alternatives.free_run import FreeRun
from kscheduler.recorder.replaying.recorded_configuration import configured_as
from kscheduler.recorder.replaying.replay import Beginning, last_run_of
from tests.builders import make_pod
from tests.plugins.dynamic_resources.stage import allocation, claim
from tests.recorder.recorded import record
from tests.recorder.test_other_policy import PACKING
from tests.recorder.test_stories import VolumeStory
from tests.recorder.test_stories_of_claims import ClaimStory, configuration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("claims")
    record(directory, 200, seed=11, config=configuration("1.37"), cluster_type=ClaimStory, segment_bytes=3_000)
    return directory


@pytest.mark.parametrize("packs", [False, True], ids=["as recorded", "packed"])
def test_pods_have_devices_of_their_node_and_no_device_is_held_twice(packs: bool, recording: Path) -> None:
    recorded = RecordedRun(last_run_of(recording))
    other = Configured(load_bytes((HEAD + PACKING).encode(), "other"))
    run = FreeRun(other if packs else configured_as(recorded.description), recorded.beginning.kinds, recorded.victims)
    tracker = run.assembly.cache.devices.claims
    for change in recorded.external_changes():
        run.apply_external(change)
        results = [each.status.allocation.devices.results for each in tracker.allocated() if each.status.allocation]
        held = Counter((each.pool, each.device) for found in results for each in found)
        assert max(held.values(), default=1) == 1
        assert tracker.all_pending() == []
    with_claims = [pod for pod in run.pods() if pod.spec.node_name and list(claim_keys(pod))]
    assert len(with_claims) > 5
    for pod in with_claims:
        for held_claim in map(tracker.get, claim_keys(pod)):
            assert held_claim is not None
            assert held_claim.status.allocation is not None
            assert pod.metadata.uid in [user.uid for user in held_claim.status.reserved_for]
            assert {each.pool for each in held_claim.status.allocation.devices.results} == {pod.spec.node_name}


def test_pods_on_nodes_count_before_any_pod_that_waits_is_decided(recording: Path) -> None:
    segments = last_run_of(recording)
    recorded = RecordedRun(segments[len(segments) // 2 :])
    beginning = recorded.beginning
    count = sum(len(stored) for number, stored in beginning.stored if beginning.kinds[number] is PODS)
    pods = [change.new for change in recorded.external_changes() if change.kind is PODS][:count]
    have_nodes = [isinstance(pod, Pod) and bool(pod.spec.node_name) for pod in pods]
    assert set(have_nodes) == {False, True}
    assert have_nodes == sorted(have_nodes, reverse=True)


def test_what_was_written_and_not_shown_when_a_recording_begins_is_taken() -> None:
    """The pod's Binding was shown, the devices of its claim were not."""
    shown, written = claim("c"), claim("c", allocated=allocation("n0", "gpu-0"), users=["uid-of-p"], version=2)
    kinds = [PODS, RESOURCE_CLAIMS]
    beginning = Beginning(
        kinds=kinds,
        stored=[(0, [make_pod("p", node="n0")]), (1, [shown])],
        versions=[(0, make_pod("p")), (1, written)],
        state={"versions": [1, 0], "assumed claims": [(1, 0)]},
    )
    changes = [(change.kind, change.new) for change in of_snapshot(beginning, {})]
    assert changes == [(RESOURCE_CLAIMS, shown), (RESOURCE_CLAIMS, written), (PODS, make_pod("p", node="n0"))]


def test_volumes_that_were_bound_for_recorded_nodes_are_counted(tmp_path: Path) -> None:
    """Both runs follow them, so a reader must know."""
    record(tmp_path, 80, seed=3, cluster_type=VolumeStory)
    recorded = RecordedRun(last_run_of(tmp_path))
    (line,) = compared(recorded, configured_as(recorded.description)).notes
    count, _, rest = line.partition(" ")
    assert int(count) > 1
    assert rest == "volume claims were bound for the recorded scheduler's nodes: both runs keep these volumes"
