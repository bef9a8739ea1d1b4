"""The policies that `kscheduler bench --plugin` is measured with: the same five rules in three shapes decide alike."""

from pathlib import Path
from typing import Final

import pytest

from kscheduler.assembly.configured import ConfigurationReader
from kscheduler.testing import Cluster, make_node, make_pod

FOLDER: Final = Path(__file__).parents[2] / "benchmarks" / "policies"
KEPT: Final = {"columns": True, "functions": True, "unsigned": False}
ZONE: Final = "topology.kubernetes.io/zone"


def cluster(policies: str) -> Cluster:
    return Cluster(
        make_node("closed", labels={ZONE: "closed"}),
        make_node("dear", annotations={"cost": "0.9"}),
        make_node("cheap", annotations={"cost": "0.1"}),
        make_node("tier", labels={"tier": "web"}, annotations={"cost": "0.4"}),
    ).enable(FOLDER / f"{policies}.py", weight=3)


@pytest.mark.parametrize("policies", KEPT)
def test_the_five_decide_alike_in_each_shape(policies: str) -> None:
    pods = [make_pod(f"p{number}", labels={"tier": "web"} if number % 2 else {}) for number in range(12)]
    nodes = cluster(policies).schedule(*pods)
    assert nodes == cluster("columns").schedule(*pods)
    assert {"tier", "cheap"} <= set(nodes)
    assert "closed" not in nodes
    explained = cluster(policies).explain(make_pod("web"))
    assert "node(s) were in a zone that is closed" in explained


@pytest.mark.parametrize("policies", KEPT)
def test_what_signs_is_kept(policies: str) -> None:
    from kscheduler.assembly import profiles_over
    from kscheduler.state.cache import Cache

    configured = ConfigurationReader(plugins=[str(FOLDER / f"{policies}.py")]).default()
    (profile,) = profiles_over(Cache(), configured.config, configured.registry).values()
    names = [origin.name for origin in configured.origins]
    assert [profile.traits[name].is_keepable for name in names] == [KEPT[policies]] * 5
