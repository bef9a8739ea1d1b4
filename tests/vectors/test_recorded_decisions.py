"""Decisions recorded from kube-scheduler, default plugins and gates: kscheduler must decide the same.

Each `<family>.jsonl.gz` beside this file (of 1.36.2), or in the folder `1.37` (of 1.37.1) or `1.38` (of 1.38.0-beta.0),
holds 60 scenarios, one JSON object per line:
`config` (null or a KubeSchedulerConfiguration), `objects` (the cluster, lists of API objects by resource name, defaults
filled in as a client reads them), `pod` (the pod to be judged; where it names a node, only the NodeName filter is
asked) and `expect`, the answer of the real code with every node looked at. `kscheduler explain --from FILE -o json
--emulated-version 1.38` prints these keys of it:

    error            text where scheduling ends in an internal error; all else is null then
    preEnqueue       null, or {status, plugin, reasons} where the pod may not enter the queue; nothing else is computed
    preFilter        null, or the same shape where PreFilter rejected the pod for all nodes; `filter` is empty then
    preFilterNodes   null, or the node names (sorted) that PreFilter narrowed the search to; they need not exist
    filter           per rejected node {plugin, code, reasons}: its first rejecting plugin ("" outside preFilterNodes)
    feasible         names of the nodes that pass, sorted
    scores           per feasible node each plugin's points, normalised and times weight, and their sum `_total`; also
                     for a single node. A plugin that skipped itself has no entry
    best             names of the nodes with the highest `_total`, sorted: each is a right choice
    message          the text of the condition and the Event; empty where a node fits
    preemption       null where a node fits or PostFilter was not asked, else {status, message, nominatedNode, victims}:
                     `message` is the tail of the text above, `nominatedNode` is empty where no preemption helps
    preemptionCandidates    null, or for each node where a preemption would make room {victims, pdbViolations}

`expect` holds besides: `preemptionOutcomes`, every right {nominatedNode, victims} (more than one where nodes tie in all
that decides), and `victimTies`, nodes where pods tie in priority and start, so that their order in the node decides
which of them go: there any victims are right that are as many and of the same priorities.

All arithmetic is Go's, so equality is exact.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import read_scenarios
from tests.effort import IS_CI
from tests.explain.as_json import decision_tree
from tests.explain.schema import assert_valid, untold, weighed

HERE = Path(__file__).parent
FOLDERS = {"1.36": HERE, "1.37": HERE / "1.37", "1.38": HERE / "1.38"}
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in HERE.glob("*.jsonl.gz"))
SAME = ("error", "preEnqueue", "preFilter", "preFilterNodes", "filter", "feasible", "scores", "best")

# Families that `make test` decides as an earlier version, too; as the newest it decides all. Of 1.37 those of which a
# later version decides some line otherwise.
EARLIER_TOO = {
    "1.36": frozenset({"edge", "mixed", "preemption", "resources", "taints", "topology_spread", "volume_binding"}),
    "1.37": frozenset({"edge", "mixed", "preemption_pdb", "resources", "topology_spread_scores"}),
}
NEWEST = next(reversed(BEHAVIOURS))

# A node has a cpu of 1E or 1Ei: more thousandths than 64 bits hold. kube-scheduler takes it to have none until 1.37;
# here it has the most there can be (docs/differences.md), as in 1.38.
INTENDED = frozenset({"edge-dev-2026a-10", "edge-dev-2026a-30", "edge-dev-2026a-34", "edge-dev-2026a-55"})
INTENDED_OF = {"1.36": INTENDED, "1.37": INTENDED}

_CHOSEN = re.compile(r"(potential placement for pod on) node \S+, preempting")
Tree = dict[str, Any]


# Of 1.37 alone, and read by tests of their own beside this one.
OF_GROUPS = {"group_preemption", "pod_groups", "preempted_groups"}


def test_all_families_of_the_built_plugins_are_here() -> None:
    assert FOLDERS.keys() == BEHAVIOURS.keys()
    later = sorted(path.name.removesuffix(".jsonl.gz") for path in FOLDERS["1.37"].glob("*.jsonl.gz"))
    assert sorted(OF_GROUPS) == [family for family in later if family not in FAMILIES]
    assert OF_GROUPS.isdisjoint(FAMILIES)
    assert FAMILIES == [
        "csi_limits",
        "dra",
        "edge",
        "host_ports",
        "image_locality",
        "mixed",
        "mixed_large",
        "node_affinity",
        "pod_affinity",
        "pod_affinity_scores",
        "preemption",
        "preemption_constraints",
        "preemption_nominated",
        "preemption_pdb",
        "resources",
        "scheduling_gates",
        "strategies",
        "taints",
        "topology_spread",
        "topology_spread_defaults",
        "topology_spread_scores",
        "unschedulable_nodename",
        "volume_binding",
        "volume_restrictions",
        "volume_zone",
    ]


def played() -> Iterator[Any]:
    earlier = pytest.mark.slow("sixty clusters each, of which few are decided otherwise by the newest version")
    for version in BEHAVIOURS:
        for family in FAMILIES:
            is_quick = version == NEWEST or family in EARLIER_TOO[version]
            yield pytest.param(family, version, id=f"{family}-{version}", marks=[] if is_quick else earlier)


@pytest.mark.parametrize(("family", "version"), list(played()))
def test_decides_as_kube_scheduler_did(family: str, version: str) -> None:
    path = FOLDERS[version] / f"{family}.jsonl.gz"
    recorded = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    decided = [decision_tree(decide(one)) for one in read_scenarios(str(path), FeatureGates(version=version))]
    assert [line["id"] for line in recorded] == [tree["id"] for tree in decided]
    assert len(decided) == 60
    differences = [
        f"{tree['id']}: {difference}"
        for line, tree in zip(recorded, decided, strict=True)
        for difference in (*_differences(line["expect"], tree), *_preemption_differences(line, tree))
        if tree["id"] not in INTENDED_OF.get(version, ())
    ]
    assert not differences, "\n".join(differences)
    if path.parent == HERE:  # the schema and the details are the same for each version
        # Whole trees, which are long: in CI each, elsewhere each fourth.
        step = 1 if IS_CI else 4
        assert_explained(recorded[::step], decided[::step])


def assert_explained(recorded: list[Tree], decided: list[Tree]) -> None:
    """Each explanation validates, tells each rejection, and has the recorded points before weights."""
    for line, made in zip(recorded, decided, strict=True):
        tree, expect = json.loads(json.dumps(made)), line["expect"]
        assert_valid(tree)
        assert untold(tree) == [], tree["id"]
        if expect["scores"] is not None and tree["id"] not in INTENDED:
            assert tree["rawScores"] == expect["rawScores"], tree["id"]
            assert tree["scores"] == weighed(tree), tree["id"]


def test_each_version_is_reported_apart() -> None:
    """Else one table of behaviours would do: lines that one version alone decides so, by what differs."""
    by_version = {
        version: [
            json.loads(line)["expect"]
            for family in FAMILIES
            for line in gzip.decompress((folder / f"{family}.jsonl.gz").read_bytes()).splitlines()
        ]
        for version, folder in FOLDERS.items()
    }
    differing = {
        (earlier, later): {
            key
            for one, other in zip(by_version[earlier], by_version[later], strict=True)
            for key in one
            if one[key] != other.get(key)
        }
        for earlier, later in pairwise(by_version)
    }
    in_both = {"filter", "scores", "best", "message", "preemptionCandidates"}
    assert differing["1.36", "1.37"] >= {*in_both, "preFilterNodes"}
    assert differing["1.37", "1.38"] >= {*in_both, "feasible", "preemptionOutcomes"}


def test_each_intended_difference_is_one_and_lies_with_the_node_that_has_too_much_cpu() -> None:
    path = HERE / "edge.jsonl.gz"
    recorded = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    seen = set()
    for line, scenario in zip(recorded, read_scenarios(str(path)), strict=True):
        tree = decision_tree(decide(scenario))
        if not list(_differences(line["expect"], tree)):
            continue
        seen.add(tree["id"])
        huge = {
            node.metadata.name for node in scenario.objects.nodes if node.status.allocatable["cpu"] in ("1E", "1Ei")
        }
        assert {name for name in huge if tree["scores"][name]["NodeResourcesFit"] == 99} == huge
        for key in ("filter", "scores"):
            before, now = line["expect"][key], tree[key]
            assert {name for name in {*before, *now} if before.get(name) != now.get(name)} <= huge
    assert seen == INTENDED


def _differences(expected: Tree, tree: Tree) -> Iterator[str]:
    for key in SAME:
        if expected.get(key) != tree[key]:
            yield f"{key}: recorded {expected.get(key)}, decided {tree[key]}"
    recorded, decided = _without_node(expected["message"]), _without_node(tree["message"])
    if recorded != decided:
        yield f"message: recorded {recorded}, decided {decided}"


def _without_node(message: str | None) -> str | None:
    """From 1.37 on the text names the node that is chosen, at random among those that are equal."""
    return _CHOSEN.sub(r"\1 a node, preempting", message) if message else message


def _preemption_differences(line: Tree, tree: Tree) -> Iterator[str]:
    expected, recorded, decided = line["expect"], line["expect"]["preemption"], tree["preemption"]
    if recorded is None or decided is None:
        if recorded is not decided:
            yield f"preemption: recorded {recorded}, decided {decided}"
        return
    likeness = _likeness(line)
    if recorded["status"] != decided["status"] or _without_node(recorded["message"]) != _without_node(
        decided["message"]
    ):
        yield f"preemption: recorded {recorded}, decided {decided}"
    right = expected["preemptionOutcomes"] if recorded["status"] == "Success" else [recorded]
    if likeness(decided["nominatedNode"], decided["victims"]) not in [
        likeness(one["nominatedNode"], one["victims"]) for one in right
    ]:
        yield f"outcome: recorded {right}, decided {decided}"
    before, now = expected.get("preemptionCandidates") or {}, tree["preemptionCandidates"] or {}
    for node in sorted({*before, *now}):
        shown = [
            (one["pdbViolations"], likeness(node, one["victims"])) if one is not None else None
            for one in (before.get(node), now.get(node))
        ]
        if shown[0] != shown[1]:
            yield f"candidate {node}: recorded {before.get(node)}, decided {now.get(node)}"


def _likeness(line: Tree) -> Callable[[str, list[str]], Any]:
    """What tells victims apart: their names; where pods of the node tie, only their priorities."""
    tied = line["expect"].get("victimTies") or ()
    priorities = {pod["metadata"]["name"]: pod["spec"].get("priority", 0) for pod in line["objects"].get("pods", ())}

    def likeness(node: str, victims: list[str]) -> Any:
        return node, sorted(priorities[name] for name in victims) if node in tied else sorted(victims)

    return likeness
