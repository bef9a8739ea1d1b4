"""Recorded claims to devices: which devices, one by one.

Recorded decisions say which nodes have devices for a pod, not which devices those are. `kscheduler explain -o json`
says so for each node that passed (`devices`); here that is compared with the specification of the allocator.
"""

import gzip
import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from kscheduler.api.releases import BEHAVIOURS
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import read_scenarios
from tests.explain.as_json import decision_tree
from tests.specification.devices.allocation import Specification
from tests.vectors.test_recorded_decisions import FOLDERS

Tree = dict[str, Any]
Predicate = Callable[[Tree], bool]
DRIVER: Final = "gpu.example.com"
GI: Final = 2**30
MAX_STEPS: Final = 10_000


def attribute(device: Tree, name: str) -> Any:
    return next(iter(device["attributes"][name].values()))


def memory(device: Tree) -> int:
    text: str = device["capacity"]["memory"]["value"]
    assert text.endswith("Gi")
    return int(text.removesuffix("Gi")) * GI


# All that the recorded claims have.
SELECTORS: Final[dict[str, Predicate]] = {
    f"device.driver == '{DRIVER}'": lambda _: True,
    f"device.attributes['{DRIVER}'].model == 'a'": lambda device: bool(attribute(device, "model") == "a"),
    f"device.attributes['{DRIVER}'].model == 'b'": lambda device: bool(attribute(device, "model") == "b"),
    f"device.attributes['{DRIVER}'].ok": lambda device: bool(attribute(device, "ok")),
    f"device.capacity['{DRIVER}'].memory.compareTo(quantity('10Gi')) >= 0": lambda device: memory(device) >= 10 * GI,
    f"device.capacity['{DRIVER}'].memory.compareTo(quantity('20Gi')) >= 0": lambda device: memory(device) >= 20 * GI,
}


def evaluate(expression: str, driver: str, device: Tree) -> bool:
    return driver == DRIVER and SELECTORS[expression](device)


def specified(line: Tree, node: Tree, version: str) -> list[tuple[str, ...]] | None:
    """Claim, request and device of each result on a node; `None`: the claims do not all get something."""
    objects = line["objects"]
    claims = {claim["metadata"]["name"]: claim for claim in objects.get("resourceclaims", ())}
    named = [claims[entry["resourceClaimName"]] for entry in line["pod"]["spec"]["resourceClaims"]]
    held = [claim["status"]["allocation"] for claim in claims.values() if claim.get("status", {}).get("allocation")]
    wanted = [claim for claim in named if not claim.get("status", {}).get("allocation")]
    problem = {
        "slices": objects["resourceslices"],
        "classes": objects["deviceclasses"],
        "claims": wanted,
        "taken": [result for allocation in held for result in allocation["devices"]["results"]],
    }
    gates = FeatureGates(version=version).enabled_names()
    found = Specification(problem, node, version, gates, evaluate, MAX_STEPS, {}).allocate()
    if found is None:
        return None
    chosen = {claim["metadata"]["name"]: result for claim, result in zip(wanted, found, strict=True)}
    return [
        (claim["metadata"]["name"], result["request"], result["pool"], result["device"])
        for claim in named
        for result in (chosen.get(claim["metadata"]["name"]) or claim["status"]["allocation"])["devices"]["results"]
    ]


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_each_claim_gets_the_devices_of_the_specification(version: str) -> None:
    path = FOLDERS[version] / "dra.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    trees = [decision_tree(decide(one)) for one in read_scenarios(str(path), FeatureGates(version=version))]
    nodes = devices = 0
    for line, tree in zip(lines, trees, strict=True):
        by_name = {node["metadata"]["name"]: node for node in line["objects"]["nodes"]}
        assert sorted(tree["devices"] or ()) == (tree["feasible"] or []), line["id"]
        for name, found in (tree["devices"] or {}).items():
            reported = [(each["claim"], each["request"], each["pool"], each["device"]) for each in found]
            assert reported == specified(line, by_name[name], version), (line["id"], name)
            assert {each["driver"] for each in found} == {DRIVER}
            nodes, devices = nodes + 1, devices + len(found)
    assert nodes > 40
    assert devices > nodes
