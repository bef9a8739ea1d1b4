"""`python -m benchmarks.gangs`: four known scenarios, played by the scheduler itself in virtual time."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks import gangs
from benchmarks.gangs.__main__ import main
from benchmarks.gangs.play import GangPlay, PlayedTrace, lines_of
from benchmarks.gangs.trace import read_traces, traces_in

MACHINE: Final = {"cpu": "256", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": "8"}
POD: Final = {"cpu": "100m", "memory": "250M", "nvidia.com/gpu": "8"}
NETWORK: Final = "network.topology.nvidia.com/"
HOSTNAME: Final = "kubernetes.io/hostname"
# What docs/pod-groups.md tells figures of.
SHIPPED: Final = Path(gangs.__file__).with_name("whole_nodes.json")
# The sizes of the gangs of knavigator's gang benchmark, in the order of their submission.
BURST: Final = (32, 16, 16, 10, 10, 10, 2, 8, 8, 8, 8, *(6,) * 5, 1, 1, *(5,) * 6, 2, *(4,) * 7, 2, 1, 1, *(4,) * 8)
BURST_END: Final = (*(3,) * 9, 5)


def node(number: int, *, is_open: bool = True, **domains: str) -> dict[str, Any]:
    labels = {HOSTNAME: f"n{number}", **{NETWORK + level: value for level, value in domains.items()}}
    return {"count": 1, "name": f"n{number}", "allocatable": MACHINE, "labels": labels, "unschedulable": not is_open}


def gang(name: str, pods: int, run_seconds: float = 120, submitted: float = 0, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "pods": pods,
        "minCount": pods,
        "submittedSeconds": submitted,
        "runSeconds": run_seconds,
        **more,
    }


def trace(nodes: Sequence[dict[str, Any]], gangs: Sequence[dict[str, Any]], *levels: str) -> dict[str, Any]:
    keys = [HOSTNAME if level == "host" else NETWORK + level for level in levels]
    return {"name": "trace", "nodes": nodes, "pod": POD, "gangs": gangs, "levels": keys}


def played(tree: dict[str, Any]) -> PlayedTrace:
    (only,) = traces_in(tree)
    return asyncio.run(GangPlay(only).run())


def machines(count: int) -> list[dict[str, Any]]:
    return [{"count": count, "name": f"node-{{1..{count}}}", "allocatable": MACHINE, "labels": {}}]


def test_288_node_slots_take_nine_full_waves_in_the_order_of_submission() -> None:
    """Nine times 120 s is the floor; after each wave the scheduler may take a few seconds to notice."""
    (shipped,) = read_traces(SHIPPED)
    sizes = [each.pods for each in shipped.submitted()]
    assert (sizes, sum(sizes)) == ([*BURST, *BURST_END], 288)
    result = asyncio.run(GangPlay(shipped).run())
    assert result.most_in_part == 0
    assert result.waves == 9
    assert result.seconds <= 9 * (120 + 5)
    assert result.occupied_percent > 95
    assert all(len(set(each.nodes)) == each.pods for each in result.gangs), "a pod is a whole node"


def test_a_gang_finds_the_only_spine_with_three_open_nodes() -> None:
    closed = {1, 3, 6, 11, 12}
    nodes = [
        node(
            number,
            is_open=number not in closed,
            datacenter="sw31",
            spine=f"sw{21 + (number - 1) // 4}",
            block=f"sw{11 + (number - 1) // 2}",
        )
        for number in range(1, 13)
    ]
    preferred = [{"key": f"{NETWORK}spine", "weight": 70}, {"key": f"{NETWORK}block", "weight": 90}]
    gangs = [gang("gang", 3, topology={"preferred": preferred})]
    result = played(trace(nodes, gangs, "datacenter", "spine", "block", "host"))
    assert result.gangs[0].nodes == ("n5", "n7", "n8")
    without_levels = played(trace(nodes, gangs))
    assert without_levels.gangs[0].nodes == ("n5", "n7", "n8"), "the labels are well known"


def test_two_gangs_fill_a_domain_each() -> None:
    nodes = [
        node(
            number,
            datacenter="sw31",
            spine=f"sw{21 + (number - 1) // 6}",
            accelerator=f"nvl{1 + (number - 1) // 6}",
            block=f"sw{11 + (number - 1) // 3}",
        )
        for number in range(1, 13)
    ]
    required = {"required": f"{NETWORK}accelerator"}
    gangs = [gang(f"gang-{number}", 6, submitted=number, topology=required) for number in range(2)]
    result = played(trace(nodes, gangs, "datacenter", "spine", "accelerator", "block", "host"))
    domains = [{f"n{number}" for number in range(first, first + 6)} for first in (1, 7)]
    assert sorted(map(sorted, domains)) == sorted(list(each.nodes) for each in result.gangs)
    assert result.seconds == 121, "both run at the same time"


@pytest.mark.parametrize(("count", "size"), [(1, 70), (70, 1)], ids=["one large gang", "many small gangs"])
def test_a_pod_on_each_node_at_once(count: int, size: int) -> None:
    gangs = [gang("gang-{n}", size, 300, count=count)]
    result = played(trace(machines(70), gangs))
    assert (result.seconds, result.waves, round(result.occupied_percent)) == (300, 1, 100)
    assert len({name for each in result.gangs for name in each.nodes}) == 70


def test_a_file_with_variants_and_a_gang_that_fits_nowhere(tmp_path: Path) -> None:
    tree = {
        **trace(machines(2), []),
        "variants": {"small": {"gangs": [gang("a", 2)]}, "large": {"gangs": [gang("b", 3)]}},
    }
    path = tmp_path / "gangs.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    small, large = (asyncio.run(GangPlay(each, 30).run()) for each in read_traces(path))
    assert "\n".join(lines_of(small)).startswith("trace small: 1 gangs of 2 pods in 1 waves, 120 s")
    assert "never ran: b" in "\n".join(lines_of(large))


BAD_FILES: Final = {
    "type": ('{"name": "x", "nodes": [{"count": "a"}]}', "nodes[0].count: Expected `int`, got `str`"),
    "missing": ('{"nodes": []}', "Object missing required field `name`"),
    "list": ("[1]", "Expected `object`, got `array`"),
    "no-json": ("{", "it is no JSON"),
    "variant": ('{"name": "x", "variants": {"a": 1}}', "variants[...]: Expected `object`, got `int`"),
    "quantity": (
        json.dumps({**trace(machines(1), []), "pod": {"cpu": "two"}}),
        "pod.cpu: quantity 'two' is not a number",
    ),
    "levels": (json.dumps({**trace(machines(1), []), "levels": ["a", "a"]}), "levels: topologyLevels[0][1]: Duplicate"),
    "not-there": (None, "No such file or directory"),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=list(BAD_FILES))
def test_a_file_that_cannot_be_played_is_named_with_its_field(
    text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gangs.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr("sys.argv", ["gangs", str(path)])
    monkeypatch.setattr("benchmarks.gangs.__main__.configure", lambda **_: None)
    assert main() == 2
    assert capsys.readouterr().err.startswith(f"kscheduler: {path}: {message}")
