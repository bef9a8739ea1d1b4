"""An extension point stands in several tables: none of them may be forgotten."""

from dataclasses import fields

import pytest

from kscheduler.config.expansion import POINTS
from kscheduler.config.types import Plugins
from kscheduler.framework import plugin_contract
from kscheduler.framework.plugin import Point
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.runtime import points
from kscheduler.scheduling.runtime.guard import PluginCall

ROWS = {name: row for name, row in vars(points).items() if isinstance(row, PluginCall)}


@pytest.mark.parametrize("point", list(Point), ids=lambda point: point.key)
def test_a_point_that_configurations_name_is_in_every_table(point: Point) -> None:
    assert point.key in POINTS, "config.expansion"
    assert point.key in Plugins.__struct_encode_fields__, "config.types.Plugins"
    assert point.name.lower() in {field.name for field in fields(Profile)}, "scheduling.profile.Profile"
    assert point.method in plugin_contract._PARAMETERS, "framework.plugin_contract"
    assert ROWS[point.name].label == point.label, "scheduling.runtime.points"


def test_every_way_of_calling_a_plugin_has_a_fate_and_a_label() -> None:
    assert {row.label for row in ROWS.values()} >= {point.label for point in Point}
    assert all(row.label and row.outcome for row in ROWS.values())
