"""Asking a plugin what it reads of a pod.

A plugin that cannot sign a pod has said nothing wrong about it: the pod is judged by itself. But nobody would ever
hear that a user's `sign` fails, so it is reported here. In-tree plugins are asked bare: theirs fails only on pods that
cannot be read, which is told where that matters.
"""

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, Final

from kscheduler.framework.plugin import Signature
from kscheduler.framework.plugin_listener import SLOW_CALL_SECONDS, PluginListener
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.registry import is_in_tree

Signer = Callable[[PodInfo], Signature]
_POINT: Final = "Sign"


def signer_of(plugin: Any, listener: PluginListener) -> Signer:
    """What signs pods for the plugin. Raises what its `sign` raises."""
    sign: Signer = plugin.sign if is_in_tree(plugin) else partial(_signed, plugin, listener)
    return sign


def _signed(plugin: Any, listener: PluginListener, pod: PodInfo) -> Signature:
    began = perf_counter()
    try:
        signature: Signature = plugin.sign(pod)
        hash(signature)
    except BaseException as failure:
        listener.failed(plugin.name, _POINT, pod, failure)
        raise
    finally:
        seconds = perf_counter() - began
        if seconds > SLOW_CALL_SECONDS:
            listener.slow(plugin.name, _POINT, pod, seconds)
    return signature
