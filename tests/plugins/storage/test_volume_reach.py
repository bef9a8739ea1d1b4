"""Which rows the topology of a storage class means."""

from typing import Any

import pytest

from kscheduler.api.storage import TopologySelectorLabelRequirement, TopologySelectorTerm
from kscheduler.plugins.storage.volume_binding.reach import in_topology
from kscheduler.state.cache import Cache
from tests.builders import make_node


def term(**wanted: Any) -> TopologySelectorTerm:
    """Labels, each with the values that are allowed."""
    return TopologySelectorTerm(
        tuple(TopologySelectorLabelRequirement(key, tuple(values)) for key, values in wanted.items())
    )


@pytest.mark.parametrize(
    ("terms", "names"),
    [
        pytest.param([], {"a", "b", "bare"}, id="no terms mean all"),
        pytest.param([term()], set(), id="an empty term means none"),
        pytest.param([term(zone=[])], set(), id="a label without values can have none of them"),
        pytest.param([term(zone=["a"], rack=[])], set(), id="nor can it beside another"),
        pytest.param([term(zone=["a"])], {"a"}, id="a value"),
        pytest.param([term(zone=["a", "b"])], {"a", "b"}, id="either value"),
        pytest.param([term(zone=["a", "b"], rack=["1"])], {"b"}, id="all labels of a term"),
        pytest.param([term(), term(zone=["b"])], {"b"}, id="any of the terms"),
    ],
)
def test_nodes_of_a_topology(terms: list[TopologySelectorTerm], names: set[str]) -> None:
    cache = Cache()
    cache.add_node(make_node("a", labels={"zone": "a"}))
    cache.add_node(make_node("b", labels={"zone": "b", "rack": "1"}))
    cache.add_node(make_node("bare"))
    rows = cache.nodes.rows()
    assert {cache.nodes.name_of(row) for row in rows[in_topology(terms, cache.nodes, rows)].tolist()} == names
