"""A plugin's traits follow from its class, and a subclass that overrides methods cancels its parent's declarations."""

from dataclasses import replace
from typing import Any

import pytest

from kscheduler.framework.plugin import Plugin, Point, Source
from kscheduler.framework.traits import PluginTraits, traits_of
from tests.scheduling.plugins_for_tests import Sort, TurnsDown, profile


class Statement(Plugin):
    """States all that can be stated."""

    name = "Statement"
    depends_on = (Source.ROW,)
    reads_pods = False
    reads_spec_only = True
    normalizes_points_only = True
    needs_volumes = True

    def sign(self, pod: Any) -> str:
        return "alike"

    def filter(self, *_: Any) -> None: ...
    def normalize(self, *_: Any) -> None: ...
    def pre_enqueue(self, *_: Any) -> None: ...
    def may_let_in(self) -> tuple[str, ...]:
        return ()

    def gating_objects(self, *_: Any) -> None: ...
    def changed_gating_objects(self) -> None: ...


class SaysNothing:
    """Not even made of `Plugin`."""

    name = "SaysNothing"


def test_what_a_class_states_is_believed() -> None:
    traits = traits_of(Statement())
    assert traits.points == {Point.FILTER, Point.PRE_ENQUEUE}
    assert traits.is_signed
    assert traits.is_keepable
    assert traits.is_matter_of_row
    assert not traits.reads_pods
    assert traits.reads_spec_only
    assert traits.needs_volumes
    assert traits.normalizes
    assert traits.normalizes_points_only
    assert traits.is_standing_gate
    assert traits.rejects
    assert not traits.registers_events
    assert not traits.is_in_tree


def test_of_what_is_not_made_of_plugin_the_least_is_presumed() -> None:
    traits = traits_of(SaysNothing())
    assert traits.reads_pods
    assert traits.depends_on == {Source.ANYTHING}
    positive = {trait for trait in PluginTraits.__struct_fields__ if getattr(traits, trait) is True}
    assert positive == {"reads_pods"}


STATED = (
    *("is_signed", "is_keepable", "reads_spec_only"),
    *("normalizes_points_only", "needs_volumes", "is_standing_gate", "is_object_gate"),
)


@pytest.mark.parametrize(
    ("method", "taken_back"),
    [
        ("filter", {"is_signed", "is_keepable", "needs_volumes"}),
        ("score", {"is_keepable", "needs_volumes"}),
        ("normalize", {"is_keepable", "normalizes_points_only", "needs_volumes"}),
        ("pre_enqueue", {"is_signed", "is_standing_gate", "is_object_gate"}),
        ("events_to_register", {"is_signed", "is_object_gate"}),
        ("sign", {"reads_spec_only"}),
        ("permit", set()),
    ],
)
def test_a_method_further_down_takes_the_statement_back(method: str, taken_back: set[str]) -> None:
    below = type("Below", (Statement,), {method: lambda *_: "anything"})
    before, after = traits_of(Statement()), traits_of(below())
    assert {trait for trait in STATED if getattr(before, trait) and not getattr(after, trait)} == taken_back
    assert after.reads_pods is (method in {"filter", "score", "normalize"})


def test_a_statement_made_again_beside_the_method_stands() -> None:
    class Again(Statement):
        needs_volumes = True

        def filter(self, *_: Any) -> None: ...

    assert traits_of(Again()).needs_volumes


def test_a_profile_made_of_another_has_the_traits_of_its_own_plugins() -> None:
    first = profile(TurnsDown("Full", "a"))
    assert first.traits.keys() == {"Full", "Sort"}
    assert not first.traits["Full"].is_keepable
    keepable = Statement()
    keepable.name = "Full"
    second = replace(first, filter=(keepable,), instances=(keepable,), queue_sort=Sort())
    assert second.traits["Full"].is_keepable
    assert replace(second, post_filter=(TurnsDown("Last"),)).traits.keys() == {"Full", "Sort", "Last"}  # type: ignore[arg-type]
