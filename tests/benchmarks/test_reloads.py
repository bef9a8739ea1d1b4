"""The benchmark of reloads: it plays, and what it calls right is right."""

from collections import Counter

import pytest

from benchmarks.reloads.__main__ import Figures, play, report
from benchmarks.reloads.pair import NODES, VERSIONS, WHOLE

PROCESSES = pytest.mark.slow("plays reloads in a process")


def left_by(version: str, name: str) -> set[str]:
    """The nodes that a filter of a version leaves."""
    text = version.split(f'@plugin("{name}"')[1].split('in "')[1].split('"', maxsplit=1)[0]
    return set(text)


def test_half_of_a_version_leaves_a_node_that_no_whole_version_does() -> None:
    first, second = VERSIONS
    whole = {node for version in VERSIONS for node in left_by(version, "Left") & left_by(version, "Right")}
    mixed = [left_by(first, "Left") & left_by(second, "Right"), left_by(second, "Left") & left_by(first, "Right")]
    assert whole == WHOLE
    assert [len(nodes) for nodes in mixed] == [1, 1]
    assert mixed[0] | mixed[1] == set(NODES) - WHOLE


@PROCESSES
async def test_a_short_play_loses_nobody() -> None:
    figures = await play(15, 300.0)
    assert figures.taken_over == 15
    assert figures.is_right
    assert figures.pods > 0
    assert "0 lost, 0 decided by half of a configuration" in report(figures)


@pytest.mark.parametrize(
    "figures",
    [
        pytest.param(Figures(pods=2, nodes=Counter({"a": 1})), id="a pod is lost"),
        pytest.param(Figures(pods=2, nodes=Counter({"a": 1, "": 1})), id="a pod waits"),
        pytest.param(Figures(pods=2, nodes=Counter({"a": 1, "b": 1})), id="by half"),
        pytest.param(Figures(pods=1, nodes=Counter({"a": 1}), refused=["{}"]), id="refused"),
    ],
)
def test_what_is_wrong_is_called_wrong(figures: Figures) -> None:
    assert not figures.is_right
