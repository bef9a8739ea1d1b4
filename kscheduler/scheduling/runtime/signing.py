"""Asking plugins what they read of a pod.

A plugin that cannot sign a pod has said nothing wrong about it: the pod is judged by itself. But nobody would ever
hear that a user's `sign` fails, so that is reported here. In-tree plugins are asked bare: theirs fails only on pods
that cannot be read, which is told where that matters. Whoever compares signatures runs code of plugins, too (`__eq__`
and `__hash__` of their values): that is done inside `or_judged_alone`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from kscheduler.framework.plugin import Signature
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import SIGN, SIGNATURES

T = TypeVar("T")

Signer = Callable[[PodInfo], Signature]
"""What signs pods for one plugin. Raises whatever the plugin raises: called inside `or_judged_alone`."""


def signer_of(plugin: Any, traits: PluginTraits, listener: PluginListener) -> Signer:
    """What signs pods for the plugin."""
    sign: Signer = plugin.sign if traits.is_in_tree else partial(_signed, plugin, listener)
    return sign


def _signed(plugin: Any, listener: PluginListener, pod: PodInfo) -> Signature:
    return SIGN.ask_and_tell(plugin.name, listener, pod, plugin.sign, pod)


def or_judged_alone(by_signatures: Callable[..., T], *arguments: Any) -> T | None:
    """What `by_signatures` finds out by asking signers and comparing what they say; `None` if a plugin fails."""
    try:
        found: T = SIGNATURES.ask("", by_signatures, *arguments)
    except PluginFailure:
        return None
    return found


def signatures_of(signers: Sequence[Signer], pod: PodInfo) -> tuple[Signature, ...]:
    """What each signs, in their order. Called inside `or_judged_alone`."""
    return tuple([sign(pod) for sign in signers])
