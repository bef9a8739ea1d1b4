"""What is no plugin is refused when it is built, in words that say what is expected."""

from typing import Any, ClassVar

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import default_configuration
from kscheduler.framework.events import NODE_ADD
from kscheduler.framework.per_node import plugin
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.plugin_contract import contract_problems
from kscheduler.framework.status import SUCCESS, Status
from kscheduler.scheduling.profiles import queue_policy
from tests.scheduling.runtime.hostile_plugin import WAYS, hostile
from tests.scheduling.test_profiles import build

ENABLED = [{"schedulerName": "x", "plugins": {"multiPoint": {"enabled": [{"name": "Mine"}]}}}]


class Mine(Plugin):
    """Sound: lets every pod in."""

    name = "Mine"

    def pre_enqueue(self, pod: Any) -> Status:
        return SUCCESS


class OtherName(Mine):
    name = "Yours"


class Nameless(Plugin):
    def pre_enqueue(self, pod: Any) -> Status:
        return SUCCESS


class AsyncFilter(Mine):
    async def filter(self, cycle: Any, pod: Any, nodes: Any, rows: Any) -> None: ...


class FewParameters(Mine):
    def filter(self, pod: Any, node: Any) -> None: ...


class OnlyReserve(Mine):
    def reserve(self, cycle: Any, pod: Any, node_name: str) -> Status:
        return SUCCESS


class PlainBind(Mine):
    def bind(self, cycle: Any, pod: Any, node_name: str) -> Status:
        return SUCCESS


class ListOfSources(Mine):
    depends_on: ClassVar[Any] = ["row"]


class YesInWords(Mine):
    reads_pods: ClassVar[Any] = "no"


class NoPoint(Plugin):
    name = "Mine"

    def preenqueue(self, pod: Any) -> Status:
        return SUCCESS


class NoMethod(Mine):
    score: ClassVar[Any] = 5


def dies(*_: object) -> Any:
    raise LookupError("no such zone")


MISTAKES = {
    "another name": (lambda *_: OtherName(), "its `name` is 'Yours', and it was registered as 'Mine'"),
    "no name": (lambda *_: Nameless(), "its `name` is None"),
    "a class for one of it": (lambda *_: Mine, "its factory returned the class Mine"),
    "a forgotten return": (lambda *_: None, "returned None, which takes part in no extension point"),
    "an async filter": (lambda *_: AsyncFilter(), "`filter` is declared with `async def`"),
    "a wrong signature": (
        lambda *_: FewParameters(),
        r"`filter` cannot be called with \(cycle, pod, nodes, rows\): too many positional",
    ),
    "reserve alone": (lambda *_: OnlyReserve(), "it has `reserve` and no `unreserve`"),
    "a plain bind": (lambda *_: PlainBind(), "`bind` is a plain method: declare it with `async def`"),
    "sources that are none": (lambda *_: ListOfSources(), r"`depends_on` is \['row'\]"),
    "a fact in words": (lambda *_: YesInWords(), "`reads_pods` is 'no': let it be True or False"),
    "no extension point": (
        lambda *_: NoPoint(),
        "it has no extension point: `preenqueue` .* did you mean `pre_enqueue`",
    ),
    "a method that is none": (lambda *_: NoMethod(), "`score` is 5, and no method"),
    "a class registered by itself": (Mine, r'initializing plugin "Mine": TypeError: .*takes no arguments'),
    "a constructor that dies": (dies, r'"Mine": LookupError: no such zone \(.*test_plugin_contract.py:\d+\)'),
}


@pytest.mark.parametrize(("factory", "problem"), MISTAKES.values(), ids=MISTAKES)
def test_what_cannot_work_is_refused_when_it_is_built(factory: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as failure:
        build(ENABLED, ("Mine", factory))
    assert "profile x" in str(failure.value)
    assert '"Mine"' in str(failure.value)


@pytest.mark.parametrize("way", ["is cancelled", "exits", "interrupts"])
def test_a_factory_that_would_end_the_process_is_refused_and_named(way: str) -> None:
    with pytest.raises(ConfigError, match=r'initializing plugin "Mine": (CancelledError|SystemExit|KeyboardInterrupt)'):
        build(ENABLED, ("Mine", lambda *_: WAYS[way]()))


@pytest.mark.parametrize("method", ["pre_enqueue", "filter", "score", "reserve", "pre_bind", "sign", "normalize"])
def test_what_a_user_would_write_is_accepted(method: str) -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "Hostile"}]}}
    assert build([{"schedulerName": "x", "plugins": plugins}], ("Hostile", lambda *_: hostile(method, "none")))


def test_in_tree_plugins_hold_the_contract_that_others_are_held_to() -> None:

    (profile,) = build(None).values()
    assert {one.name: contract_problems(one, one.name) for one in profile.instances} == {
        one.name: [] for one in profile.instances
    }
    assert len(profile.instances) > 15


@pytest.mark.parametrize("way", [*WAYS, "an event without a hint"])
def test_events_that_are_none_are_refused_at_the_start(way: str) -> None:
    class Registers(Mine):
        def events_to_register(self) -> Any:
            return [NODE_ADD] if way not in WAYS else WAYS[way]()

    profiles = build(ENABLED, ("Mine", lambda *_: Registers()))
    with pytest.raises(ConfigError, match='running events_to_register of plugin "Mine"'):
        queue_policy(profiles, default_configuration().configuration, lambda *_: None)


def test_arguments_of_a_plain_function_do_not_vanish() -> None:
    @plugin("Mine")
    def score(pod: Any, node: Any) -> int:
        return 1

    plugins = {"score": {"enabled": [{"name": "Mine"}]}}
    args = [{"name": "Mine", "args": {"points": 42}}]
    with pytest.raises(ConfigError, match=r'initializing plugin "Mine": it takes no arguments.*points'):
        build([{"schedulerName": "x", "plugins": plugins, "pluginConfig": args}], ("Mine", score))


def test_a_score_function_enabled_as_a_filter_is_refused() -> None:
    @plugin("Mine")
    def score(pod: Any, node: Any) -> int:
        return 1

    plugins = {"filter": {"enabled": [{"name": "Mine"}]}}
    with pytest.raises(ConfigError, match='plugin "Mine" does not extend FilterPlugin'):
        build([{"schedulerName": "x", "plugins": plugins}], ("Mine", score))
