"""Plugins that are told of objects while an explanation is made: a bug of one keeps nothing from the others."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kscheduler.api.core import Pod
from kscheduler.api.kinds import Kind
from kscheduler.scenario.listed_kinds import ListedKinds
from kscheduler.scenario.scenario import ClusterObjects

WIDGETS = Kind("test.io", "v1", "widgets", "Widget", Pod, namespaced=True)


class Widgets:
    """An API server with three."""

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        assert path == "/apis/test.io/v1/widgets"
        items = [{"metadata": {"name": name, "namespace": "x"}} for name in "abc"]
        return json.dumps({"kind": "WidgetList", "metadata": {}, "items": items}).encode()


class Reported:
    """A plugin that writes down what it is told of."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def changed(self, _old: Any, new: Any) -> None:
        self.names.append(new.metadata.name)


class Fails(Reported):
    """Raises at the second object."""

    def __init__(self, failure: BaseException) -> None:
        super().__init__()
        self.failure = failure

    def changed(self, _old: Any, new: Any) -> None:
        super().changed(_old, new)
        if len(self.names) == 2:
            raise self.failure


@pytest.mark.parametrize("failure", [KeyError("size"), SystemExit(1)], ids=repr)
async def test_a_plugin_that_fails_is_named_and_keeps_no_other_from_hearing(failure: BaseException) -> None:
    listed = ListedKinds(ClusterObjects())
    fails, reported = Fails(failure), Reported()
    lister = listed.lister(WIDGETS)
    lister.on_change(fails.changed)
    lister.on_change(reported.changed)
    notes = await listed.read(Widgets())  # type: ignore[arg-type]  # the part of the client that is needed
    assert notes == [f"plugin Fails failed when it was notified of x/b: {failure!r}"]
    assert (fails.names, reported.names) == (["a", "b"], ["a", "b", "c"])
    assert [found.metadata.name for found in lister.list()] == ["a", "b", "c"]
    assert lister.has_synced
