"""Pod groups wait for objects that name levels of the topology: no object of a recording shows what is not served."""

from pathlib import Path
from typing import Final

import msgspec
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.groups import POD_GROUPS, VolcanoPodGroup
from kscheduler.api.kinds import Kind
from kscheduler.api.topologies import TOPOLOGY_KINDS, HyperNode, KueueTopology, not_served
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import LoadedConfig, from_tree
from kscheduler.framework.cluster.topology_request import REQUIRED
from kscheduler.recorder.redacted_objects import ObjectRedaction, Pseudonyms
from tests.builders import Tree
from tests.recorder.recorded import record, replayed, written
from tests.recorder.test_stories import GroupStory, assert_equal

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
ZONE: Final = "topology.kubernetes.io/zone"
KUEUE: Final = TOPOLOGY_KINDS["kueue-v1beta1"]


class AwaitingStory(GroupStory):
    """Groups that must be in one zone. Topologies are served only later, and then there is one."""

    more_kinds = (POD_GROUPS, KUEUE)

    @property
    def _is_served(self) -> bool:
        return self.decided >= 40

    def why_awaited(self, kind: Kind) -> str:
        return "" if self._is_served else not_served(kind)

    def populate(self) -> None:
        super().populate()
        for group in self.informers[POD_GROUPS].store.list():
            metadata = msgspec.structs.replace(group.metadata, annotations={REQUIRED: ZONE})
            self._show(POD_GROUPS, "MODIFIED", msgspec.structs.replace(group, metadata=metadata))

    def report(self, pod: Tree) -> None:
        super().report(pod)
        if self._is_served and not len(self.informers[KUEUE].store):
            levels = {"levels": [{"nodeLabel": ZONE}, {"nodeLabel": "kubernetes.io/hostname"}]}
            self._show(KUEUE, "ADDED", convert({"metadata": {"name": "t", "uid": "t"}, "spec": levels}, KueueTopology))


def configured() -> LoadedConfig:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    settings = {"topologyAPIs": ["kueue-v1beta1"], "profiles": [{"schedulerName": "kscheduler"}]}
    return from_tree({**head, **settings}, "test", parse_feature_gates("GenericWorkload=true", version="1.37"))


@pytest.mark.parametrize("segment_bytes", [0, 6_000], ids=["one segment", "segments"])
def test_a_group_that_waits_for_a_kind_that_is_not_served_waits_in_the_replay(
    segment_bytes: int, tmp_path: Path
) -> None:
    record(tmp_path, 160, 7, config=configured(), cluster_type=AwaitingStory, segment_bytes=segment_bytes)
    assert b"the API server does not serve v1beta1" in written(tmp_path)
    replay = replayed(tmp_path)
    assert_equal(replay.report)
    assert replay.report.segments > (segment_bytes > 0)
    assert replay.scheduler is not None
    cache = replay.scheduler.assembly.cache
    assert [each.source for each in cache.topology_levels.lists(cache.nodes)] == ["Topology t"]


def test_names_of_levels_stay_where_names_are_hashed() -> None:
    """They are keys of labels, which nodes keep; with others, no group would find its level."""
    redaction = ObjectRedaction(Pseudonyms(b"0123456789abcdef"))
    spec = {"levels": [{"nodeLabel": ZONE}]}
    topology = redaction.redacted(convert({"metadata": {"name": "t"}, "spec": spec}, KueueTopology))
    assert [level.node_label for level in topology.spec.levels] == [ZONE]
    asked = {"metadata": {"name": "g", "annotations": {REQUIRED: ZONE, "example.com/team": "blue"}}}
    hard = {"spec": {"minMember": 2, "networkTopology": {"mode": "hard", "highestTierName": "rack"}}}
    group = redaction.redacted(convert({**asked, **hard}, VolcanoPodGroup))
    assert group.metadata.annotations[REQUIRED] == ZONE
    assert group.metadata.annotations["example.com/team"] != "blue"
    assert group.spec.network_topology.mode == "hard"
    tier = {"metadata": {"name": "h"}, "spec": {"tier": 1, "tierName": "rack", "members": []}}
    named = redaction.redacted(convert(tier, HyperNode)).spec.tier_name
    assert group.spec.network_topology.highest_tier_name == named != "rack"
