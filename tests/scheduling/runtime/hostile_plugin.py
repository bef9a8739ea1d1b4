"""A plugin that misbehaves at one method towards one pod, and a factory of such plugins."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kscheduler.framework import plugin_contract
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.plugin import PermitResult, Plugin, PostFilterResult, PreFilterResult, Source
from kscheduler.framework.plugin_results import FILE_MODULES
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import SKIP, SUCCESS, unschedulable

VICTIM = "victim"
# Methods that are asked about codes or about everybody: only the victim is rejected, so they are about it.
ABOUT_NO_POD = frozenset({"status", "may_let_in", "changed_gating_objects"})


async def _work() -> None:
    """Nobody awaits this."""


def _raises() -> Any:
    raise ValueError("boom")


def _raising(make: Callable[[], BaseException]) -> Callable[[], Any]:
    """Each time another exception: one that is raised again and again grows a traceback without end."""

    def raises() -> Any:
        raise make()

    return raises


WAYS: Mapping[str, Callable[[], Any]] = {
    "raises": _raises,
    "none": lambda: None,
    "garbage": object,
    "true": lambda: True,
    "coroutine": _work,
    # what is no `Exception`: an awaited future that was cancelled, a `sys.exit()` in a library, and their like
    "is cancelled": _raising(asyncio.CancelledError),
    "exits": _raising(lambda: SystemExit(3)),
    "interrupts": _raising(KeyboardInterrupt),
    "closes": _raising(GeneratorExit),
}


class Hostile(Plugin):
    """The pod of every call is among its arguments: other pods than the victim get a sound answer."""

    name = "Hostile"

    def __init__(self, method: str, way: str) -> None:
        self._method = method
        self._way = WAYS[way]
        self.is_sound = False
        self.to_all = False
        """Whether it misbehaves towards every pod."""
        self.calls = 0
        """Of the method."""

    def answer(self, method: str, arguments: tuple[Any, ...], sound: Any) -> Any:
        pods = [one.pod if isinstance(one, QueuedPodInfo) else one for one in arguments]
        pods += [pod for one in arguments if isinstance(one, MovedPods) for pod in one.kinds]
        self.calls += method == self._method
        is_victim = self.to_all or any(isinstance(one, PodInfo) and one.name == VICTIM for one in pods)
        if method == self._method and not self.is_sound and (is_victim or method in ABOUT_NO_POD):
            return self._way()
        return sound(*arguments) if callable(sound) else sound


def _victim_only(_cycle: Any, pod: PodInfo, _nodes: Any, rows: Any) -> Any:
    return np.full(len(rows), int(pod.name == VICTIM), dtype=np.int64)


def _not_the_victim(_cycle: Any, pod: PodInfo, _node_name: str) -> PermitResult:
    return PermitResult(unschedulable("not now") if pod.name == VICTIM else SUCCESS)


def _gates_the_victim(pod: PodInfo) -> Any:
    return unschedulable("not yet") if pod.name == VICTIM else SUCCESS


SOUND: Mapping[str, Any] = {
    "pre_enqueue": SUCCESS,
    "sort_key": 0,
    "pre_filter": PreFilterResult(SUCCESS),
    "filter": None,
    "status": lambda _cycle, code: unschedulable(f"code {code}", plugin="Hostile"),
    "post_filter": PostFilterResult(unschedulable("nothing to be done")),
    "pre_score": SUCCESS,
    "score": lambda _cycle, _pod, _nodes, rows: np.zeros(len(rows), dtype=np.int64),
    "normalize": lambda _cycle, _pod, _rows, scores: scores,
    "reserve": SUCCESS,
    "unreserve": None,
    "permit": PermitResult(SUCCESS),
    "pre_bind_pre_flight": SUCCESS,
    "pre_bind": SUCCESS,
    "bind": SKIP,
    "post_bind": None,
    "sign": "alike",
    "add_pod": None,
    "remove_pod": None,
    "move_pods": None,
    "may_let_in": (),
    "gating_objects": ("an object",),
    "changed_gating_objects": (),
}
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "reserve": ("unreserve",),
    "unreserve": ("reserve", "permit"),
    "pre_bind": ("pre_bind_pre_flight",),
    "pre_bind_pre_flight": ("pre_bind",),
    "normalize": ("score",),
    "status": ("filter",),
    "sign": ("filter",),
    "add_pod": ("remove_pod", "pre_filter"),
    "remove_pod": ("add_pod", "pre_filter"),
    "move_pods": ("add_pod", "remove_pod", "pre_filter"),
    "may_let_in": ("pre_enqueue",),
    "gating_objects": ("pre_enqueue", "changed_gating_objects"),
    "changed_gating_objects": ("pre_enqueue", "gating_objects"),
}
# Sound answers that a method needs so that it is asked at all.
_OTHERWISE: Mapping[str, Mapping[str, Any]] = {
    "status": {"filter": _victim_only},
    "unreserve": {"permit": _not_the_victim},
    "may_let_in": {"pre_enqueue": _gates_the_victim},
    "gating_objects": {"pre_enqueue": _gates_the_victim},
    "changed_gating_objects": {"pre_enqueue": _gates_the_victim},
}


def hostile(method: str, way: str, *, to_all: bool = False) -> Hostile:
    """One that misbehaves there in this way, and takes part in nothing else but what that needs (and Bind, as Skip).

    `to_all`: towards every pod, not only the victim.
    """
    methods: dict[str, Any] = {}
    for name in {method, "bind", *_NEEDS.get(method, ())}:
        sound = _OTHERWISE.get(method, {}).get(name, SOUND[name])
        methods[name] = _method(name, sound)
    if method == "sign":
        methods["depends_on"] = (Source.ROW,)
    made: Hostile = type("HostileOne", (Hostile,), methods)(method, way)
    made.to_all = to_all
    return made


def _method(name: str, sound: Any) -> Any:
    """A method as a user would write it: with the arguments of the contract."""
    arguments = plugin_contract._PARAMETERS.get(name, "cycle, pod, rows, scores")
    kind = "async def" if name in {"bind", "pre_bind"} else "def"
    passed = f"({arguments},)" if arguments else "()"
    code = f"{kind} {name}(self, {arguments}):\n    return self.answer({name!r}, {passed}, sound)\n"
    scope: dict[str, Any] = {"sound": sound, "__name__": f"{FILE_MODULES}mine"}
    exec(compile(code, "mine.py", "exec"), scope)
    return scope[name]
