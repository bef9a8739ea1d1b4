"""Rules that are not built yet: a pod that needs one is held, with a message, so that no decision is wrong.

Each entry names the in-tree plugin that will implement the rule (one of `config.unhonoured.UNBUILT_PLUGINS`), the field
of a pod that needs it, and a test for that. If a profile disables the plugin, its pods do not need the rule and are not
held. When a plugin is built, remove its entry; when the table is empty, remove this file.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kscheduler.api.core import Pod
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable


@dataclass(frozen=True, slots=True)
class MissingRule:
    """A rule that is not built."""

    plugin: str
    field: str
    is_needed: Callable[[Pod], bool]


MISSING_RULES: tuple[MissingRule, ...] = ()


def held_status(pod: PodInfo, enabled: Collection[str]) -> Status:
    """Success, or why the pod is held. `enabled` are the plugins that the pod's profile enables."""
    for rule in MISSING_RULES:
        if rule.plugin in enabled and rule.is_needed(pod.pod):
            return _held(rule.plugin, rule.plugin, f"its {rule.field} needs it")
    return SUCCESS


def _held(rule: str, plugin: str, why: str) -> Status:
    return unresolvable(f"pod is held because kscheduler has not built {rule} yet ({why})", plugin=plugin)
