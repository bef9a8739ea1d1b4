"""Calls of `sign`: which parts of a pod a plugin reads.

If a plugin cannot sign a pod, the pod is judged by itself, and no decision is wrong. Without a report its author
would never notice, so a failure of a user's `sign` is reported here. In-tree plugins are called without the guard:
they fail only on pods that cannot be read, and that is reported elsewhere. Comparing signatures also runs code of
plugins (`__eq__` and `__hash__` of their values), so it happens inside `or_without_class`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from kscheduler.framework.plugin import Signature
from kscheduler.framework.plugin_listener import PluginListener
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.traits import PluginTraits
from kscheduler.scheduling.runtime.guard import PluginFailure
from kscheduler.scheduling.runtime.points import (
    SIGN,
    SIGNATURES,
)

T = TypeVar("T")

# From a pod to one plugin's signature. Raises whatever the plugin raises, so call it inside `or_without_class`.
Signer = Callable[[PodInfo], Signature]


def signer_of(plugin: Any, traits: PluginTraits, listener: PluginListener) -> Signer:
    """The function that signs pods for this plugin; it reports failures of plugins that are not in-tree."""
    sign: Signer = plugin.sign if traits.is_in_tree else partial(_signed, plugin, listener)
    return sign


def _signed(plugin: Any, listener: PluginListener, pod: PodInfo) -> Signature:
    return SIGN.call_and_report(plugin.name, listener, pod, plugin.sign, pod)


def or_without_class(by_signatures: Callable[..., T], *arguments: Any) -> T | None:
    """The result of `by_signatures`, which calls signers and compares their signatures; `None` if a plugin fails."""
    try:
        found: T = SIGNATURES.call("", by_signatures, *arguments)
    except PluginFailure:
        return None
    return found


def signatures_of(signers: Sequence[Signer], pod: PodInfo) -> tuple[Signature, ...]:
    """The signature of each signer, in their order. Call it inside `or_without_class`."""
    return tuple([sign(pod) for sign in signers])
