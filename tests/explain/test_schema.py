"""Every explanation validates against the published JSON Schema; those of recorded scenarios do in tests/vectors."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from kscheduler.explain.pod_text import decision_text
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.node_table import Codes, NodeTable, Rows
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.registry import Registry
from kscheduler.plugins.in_tree import IN_TREE
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from tests.explain.as_json import decision_tree
from tests.explain.scenarios import node_tree, pod_tree, scenario_line
from tests.explain.schema import SCHEMA, VALIDATOR, assert_valid

KSCHEDULER = Path(__file__).parents[2] / "kscheduler"
TOO_LARGE = scenario_line(pod_tree(cpu="9"), nodes=[node_tree("a")])


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_every_key_of_an_answer_is_required() -> None:
    assert SCHEMA["required"] == list(SCHEMA["properties"])
    assert SCHEMA["additionalProperties"] is False


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        (scenario_line(nodes=[node_tree("a")]), "Placed"),
        (scenario_line(), "Unschedulable"),
        (scenario_line(pod_tree(schedulerName="mine")), "Error"),
        (scenario_line(pod_tree(schedulingGates=[{"name": "g"}]), nodes=[node_tree("a")]), "Gated"),
        (scenario_line(pod_tree(resourceClaims=[{"name": "gpu"}]), nodes=[node_tree("a")]), "Gated"),
        (
            scenario_line(
                pod_tree(cpu="3", priority=5), nodes=[node_tree("a")], pods=[pod_tree("low", cpu="3", nodeName="a")]
            ),
            "Preempting",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_outcome_has_a_word(line: bytes, outcome: str) -> None:
    tree = decision_tree(decide(parse_scenario(line, "test")))
    assert tree["outcome"] == tree["cycleOutcome"] == outcome
    assert_valid(json.loads(json.dumps(tree)))


def test_a_pod_that_an_extender_has_a_say_about_is_judged_without_it() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}],
    }
    tree = decision_tree(decide(parse_scenario(scenario_line(nodes=[node_tree("a")], config=config), "test")))
    assert (tree["outcome"], tree["node"]) == ("Placed", "a")
    assert_valid(json.loads(json.dumps(tree)))


def test_an_explanation_names_its_pod_and_its_form() -> None:
    tree = decision_tree(decide(parse_scenario(scenario_line(nodes=[node_tree("a")], name=""), "test")))
    assert (tree["apiVersion"], tree["kind"]) == ("explain.kscheduler.io/v1", "Explanation")
    assert tree["pod"] == {
        "namespace": "default",
        "name": "web",
        "uid": "uid-web",
        "schedulerName": "default-scheduler",
    }
    assert (tree["id"], tree["profile"], tree["node"]) == ("default/web", "default-scheduler", "a")


def test_facts_are_checked_by_their_kind() -> None:
    tree = json.loads(json.dumps(decision_tree(decide(parse_scenario(TOO_LARGE, "test")))))
    assert_valid(tree)
    detail = tree["rejections"][0]["details"][0]
    assert detail["kind"] == "insufficientResource"
    del detail["facts"]["requested"]
    assert not VALIDATOR.is_valid(tree)
    detail["kind"] = "aKindOfSomebodysPlugin"
    assert_valid(tree)


def test_every_kind_of_detail_is_in_the_schema() -> None:
    sources = [*(KSCHEDULER / "plugins").rglob("*.py"), KSCHEDULER / "scheduling" / "cycle" / "rejection_details.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    kinds = set(re.findall(r'Detail\(\s*"(\w+)"', text)) | {
        "besideNominated",
        "detailsFailed",
        "antiAffinity",
        "repelled",
    }
    known = {one["if"]["properties"]["kind"]["const"] for one in SCHEMA["$defs"]["NamedDetail"]["allOf"]}
    assert kinds <= known
    assert len(kinds) > 15


class Licences(Plugin):
    """A plugin of somebody's: node b has no licence left."""

    name = "Licences"

    def __init__(self, args: object, handle: object) -> None:
        del args, handle

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Codes:
        return np.where(rows == nodes.row_of("b"), 1, 0)

    reasons: ClassVar = {1: "no licence left"}

    def details(self, cycle: CycleState, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Iterable[Detail]:
        yield Detail("noLicence", "all 5 licences are in use", rows, {"licences": 5})


def test_a_plugin_of_somebodys_own_may_give_details() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Licences"}]}}}],
    }
    line = scenario_line(nodes=[node_tree("a"), node_tree("b")], config=config)
    plugins = Registry({**{plugin.name: plugin for plugin in IN_TREE}, "Licences": Licences})
    decision = decide(replace(parse_scenario(line, "test"), plugins=plugins))
    tree = json.loads(json.dumps(decision_tree(decision)))
    assert_valid(tree)
    (rejection,) = tree["rejections"]
    assert rejection["details"] == [
        {
            "kind": "noLicence",
            "text": "all 5 licences are in use",
            "nodes": ["b"],
            "besideNominatedPods": [],
            "facts": {"licences": 5},
        }
    ]
    assert "- all 5 licences are in use" in decision_text(decision)
