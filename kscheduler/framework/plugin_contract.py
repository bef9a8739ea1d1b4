"""Checks the shape of a plugin before its first call.

A method with a wrong signature, an `async def` that is never awaited, a Reserve without Unreserve: all of these would
fail for every pod. They are refused when the plugin is built, with a message that says what is expected instead.

A misspelt name has no effect at all. A plugin that takes part in nothing is refused, with the name that was meant; in
a plugin that does take part in something, `misspellings` finds them: it is a guess, so it is told and refuses nothing.
"""

import inspect
import math
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from inspect import iscoroutinefunction
from typing import Any, Final, TypeGuard

from kscheduler.framework.plugin import PERMIT_TIMEOUT_SECONDS, Plugin, Source
from kscheduler.framework.status import Status
from kscheduler.framework.traits import points_of

# The parameters of each method, without `self`.
_PARAMETERS: Final = {
    "pre_enqueue": "pod",
    "sort_key": "queued",
    "pre_filter": "cycle, pod, nodes",
    "add_pod": "cycle, pod, added, nodes, row",
    "remove_pod": "cycle, pod, removed, nodes, row",
    "move_pods": "cycle, pod, moved, nodes",
    "filter": "cycle, pod, nodes, rows",
    "status": "cycle, code",
    "post_filter": "cycle, pod, nodes, diagnosis",
    "pre_score": "cycle, pod, nodes, rows",
    "score": "cycle, pod, nodes, rows",
    "normalize": "cycle, pod, rows, scores",
    "reserve": "cycle, pod, node_name",
    "unreserve": "cycle, pod, node_name",
    "permit": "cycle, pod, node_name",
    "pre_bind_pre_flight": "cycle, pod, node_name",
    "pre_bind": "cycle, pod, node_name",
    "bind": "cycle, pod, node_name",
    "post_bind": "cycle, pod, node_name",
    "placement_feasible": "group, progress",
    "pod_group_post_filter": "trial",
    "generate_placements": "group, parent",
    "score_placements": "group, proposals",
    "sign": "pod",
    "may_let_in": "",
    "gating_objects": "pod",
    "changed_gating_objects": "",
    "events_to_register": "",
    "refresh": "",
    "close": "",
}
_AWAITED: Final = frozenset(("pre_bind", "bind", "refresh"))
_PLAIN_OR_AWAITED: Final = frozenset(("permit", "post_bind", "close"))
# Seconds. A smaller one is a mistake of units, and would leave no time for decisions.
LEAST_REFRESH_INTERVAL: Final = 0.1
# Methods that need another method beside them.
_COMPANIONS: Final = {
    "filter": "status",
    "reserve": "unreserve",
    "pre_bind": "pre_bind_pre_flight",
    "add_pod": "remove_pod",
    "remove_pod": "add_pod",
    "move_pods": "add_pod",
    "gating_objects": "changed_gating_objects",
    "changed_gating_objects": "gating_objects",
}
_YES_OR_NO: Final = ("reads_pods", "reads_spec_only", "normalizes_points_only", "needs_volumes")
# What a class may state besides its methods.
_DECLARATIONS: Final = (*_YES_OR_NO, "depends_on", "reasons", "refresh_interval", "permit_timeout_seconds")
_METHODS: Final = (*_PARAMETERS, "details")
# Extension points that only pod groups have.
_OF_GROUPS: Final = ("placement_feasible", "pod_group_post_filter", "generate_placements", "score_placements")
# How similar (0 to 1) a name must be to be taken for a misspelling: `scores` for `score`, not `permitted`.
_ALIKE: Final = 0.85


def contract_problems(plugin: Any, name: str) -> list[str]:
    """The problems of an object built under this name; each a sentence that says what is expected."""
    if isinstance(plugin, type):
        return [f"its factory returned the class {plugin.__name__}: return one of it, made with its arguments"]
    if not points_of(plugin) and not isinstance(plugin, Plugin):
        return [f"its factory returned {plugin!r}, which takes part in no extension point: did it forget a `return`?"]
    return list(_problems(plugin, name))


def misspellings(plugin: Any) -> list[str]:
    """Names in the plugin's own classes that are nearly an extension point's or a declaration's; each a sentence."""
    return [f"`{name}` has no effect: did you mean `{meant}`?" for name, meant in _near_misses(plugin)]


def _near_misses(plugin: Any) -> Iterator[tuple[str, str]]:
    """Each name with the one that was probably meant, and that the plugin does not have."""
    for kind in type(plugin).__mro__:
        if kind is object or kind.__module__.startswith("kscheduler."):
            continue  # what we write is tested otherwise
        for name, value in vars(kind).items():
            known = _METHODS if callable(value) else _DECLARATIONS
            if name.startswith("_") or name in known or isinstance(value, (property, type)):
                continue
            missing = [each for each in known if not _states_itself(plugin, each)]
            meant = _nearest(name, missing)
            if meant:
                yield name, meant


def _states_itself(plugin: Any, name: str) -> bool:
    """Whether a class of the plugin's own has the name: what `Plugin` has for all is only a default."""
    return any(name in vars(kind) for kind in type(plugin).__mro__ if kind is not Plugin) or name in vars(plugin)


def _nearest(name: str, known: Collection[str]) -> str:
    """Spelled with other capitals and underscores, or nearly so; empty if nothing is."""
    by_plain = {_plain(each): each for each in known}
    plain = _plain(name)
    swapped = [each for each in by_plain if sorted(each) == sorted(plain)]  # `fliter`: the same letters
    found = swapped or get_close_matches(plain, by_plain, n=1, cutoff=_ALIKE)
    return by_plain[found[0]] if found else ""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _no_point(plugin: Any) -> str:
    meant = " ".join(misspellings(plugin))
    return f"it has no extension point: {meant or 'it needs a method such as `filter`, `score` or `permit`'}"


def _problems(plugin: Any, name: str) -> Iterator[str]:
    own = getattr(plugin, "name", None)
    if own != name:
        yield f"its `name` is {own!r}, and it was registered as {name!r}: let both be the same"
    sources = getattr(plugin, "depends_on", (Source.ANYTHING,))
    if not isinstance(sources, tuple) or not all(isinstance(source, Source) for source in sources):
        yield f"`depends_on` is {sources!r}: let it be a tuple of `Source` members"
    for fact in _YES_OR_NO:
        if not isinstance(stated := getattr(plugin, fact, False), bool):
            yield f"`{fact}` is {stated!r}: let it be True or False"
    if not points_of(plugin) and not any(callable(getattr(plugin, method, None)) for method in _OF_GROUPS):
        yield _no_point(plugin)
    if callable(getattr(plugin, "refresh", None)):
        yield from _interval_problems(getattr(plugin, "refresh_interval", None))
    seconds = getattr(plugin, "permit_timeout_seconds", PERMIT_TIMEOUT_SECONDS)
    if not _is_number(seconds) or not 0 < seconds < math.inf:
        yield f"`permit_timeout_seconds` is {seconds!r}: let it be a number of seconds above 0"
    for method, parameters in _PARAMETERS.items():
        function = getattr(plugin, method, None)
        if function is None:
            continue
        if not callable(function):
            yield f"`{method}` is {function!r}, and no method"
            continue
        yield from _method_problems(method, function, parameters)
        companion = _COMPANIONS.get(method)
        if companion is not None and not callable(getattr(plugin, companion, None)):
            yield f"it has `{method}` and no `{companion}`"


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _interval_problems(interval: object) -> Iterator[str]:
    if not _is_number(interval) or not LEAST_REFRESH_INTERVAL <= interval < math.inf:
        yield f"`refresh_interval` is {interval!r}: let it be a number of seconds, {LEAST_REFRESH_INTERVAL} or more"


def _method_problems(method: str, function: Any, parameters: str) -> Iterator[str]:
    if method not in _AWAITED | _PLAIN_OR_AWAITED and (
        iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
    ):
        awaited = "permit, pre_bind, bind, post_bind, refresh and close"
        yield f"`{method}` is declared with `async def`: only {awaited} are awaited, make it a plain method"
    elif method in _AWAITED and not _may_be_awaited(function):
        yield f"`{method}` is a plain method: declare it with `async def`"
    try:
        inspect.signature(function).bind(*parameters.split(", ") if parameters else ())
    except TypeError as mistake:
        yield f"`{method}` cannot be called with ({parameters}): {mistake}"
    except ValueError:  # no signature is known, of a builtin for example
        return


def _may_be_awaited(function: Any) -> bool:
    """Whether a call may return an awaitable: a plain method may return another method's coroutine."""
    returns = getattr(function, "__annotations__", {}).get("return", ...)
    return iscoroutinefunction(inspect.unwrap(function)) or returns not in {Status, "Status", None, "None"}
