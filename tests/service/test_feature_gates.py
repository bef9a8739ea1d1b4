"""Feature gates reach the plugins of a running service, and those of a what-if."""

import pytest

from kscheduler.assembly import Ports, handle_over
from kscheduler.config.feature_gates import parse_feature_gates
from kscheduler.config.loader import default_configuration
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.framework.rules.node_match import COMPARISON_OPERATORS
from kscheduler.server.serving import HTTPServing
from kscheduler.service import Options
from kscheduler.state.cache import Cache
from tests.builders import Tree, node_tree, pod_tree
from tests.service.running import answer, node_of, put, running, until

ON = parse_feature_gates(f"{COMPARISON_OPERATORS}=true")
LONG: Tree = {"tolerations": [{"key": "minutes-left", "operator": "Gt", "value": "30", "effect": "NoSchedule"}]}


def ends_in(minutes: int) -> Tree:
    return {"taints": [{"key": "minutes-left", "value": str(minutes), "effect": "NoSchedule"}]}


@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
async def test_a_toleration_compares_numbers_where_the_gate_is_on(is_on: bool) -> None:
    """Also after the change of a taint that lets the pod in: the hint compares as the filter does."""
    gates = ON if is_on else parse_feature_gates("")
    async with EmbeddedAPIServer() as server:
        put(server, "nodes", node_tree("short", spec=ends_in(5)))
        put(server, "pods", pod_tree("patient", **LONG))
        options = Options(default_configuration(gates=gates), serving=HTTPServing.plain_on_loopback())
        async with running(server, options):
            await until(server, lambda: "untolerated taint" in condition(server, "patient"))
            put(server, "nodes", node_tree("short", spec=ends_in(60)))
            if is_on:
                await until(server, lambda: node_of(server, "patient") == "short")
            else:
                put(server, "pods", pod_tree("plain", tolerations=[{"operator": "Exists"}]))
                await until(server, lambda: node_of(server, "plain") == "short")
                assert node_of(server, "patient") == ""


@pytest.mark.parametrize("is_on", [True, False], ids=["on", "off"])
async def test_a_server_without_taint_rules_of_devices_is_noted_only_where_they_would_count(is_on: bool) -> None:
    gates = parse_feature_gates("DRADeviceTaintRules=true" if is_on else "")
    async with EmbeddedAPIServer() as server:
        options = Options(default_configuration(gates=gates), serving=HTTPServing.plain_on_loopback())
        async with running(server, options) as (app, _, _):
            put(server, "nodes", node_tree("node"))
            put(server, "pods", pod_tree("web"))
            await until(server, lambda: node_of(server, "web") == "node")
            noted = "devicetaintrules.resource.k8s.io: the API server does not have it"
            assert (noted in (await answer(app, "/readyz?verbose"))[1]) is is_on


def condition(server: EmbeddedAPIServer, name: str) -> str:
    record = server.store.get("pods", "default", name)
    assert record is not None
    conditions = record.value.get("status", {}).get("conditions", [])
    return "; ".join(one.get("message", "") for one in conditions)


def test_a_what_if_knows_the_gates_of_its_configuration() -> None:
    assert COMPARISON_OPERATORS in handle_over(Cache(), Ports(), gates=ON).features
    assert COMPARISON_OPERATORS not in handle_over(Cache(), Ports()).features
