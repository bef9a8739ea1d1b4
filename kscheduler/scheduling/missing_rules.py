"""Never wrong while unfinished: a pod that needs a rule which is not built is held, and told which.

Each entry names the in-tree plugin that will hold the rule, the field that asks for it, and how to see that a pod does.
A profile that disables the plugin does not ask for its rule, so its pods are not held. When a plugin is built, its
entry goes; when the table is empty, so does this file.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from kscheduler.api.core import Pod
from kscheduler.framework.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable


@dataclass(frozen=True, slots=True)
class MissingRule:
    """A rule that is not built."""

    plugin: str
    field: str
    is_needed: Callable[[Pod], bool]


MISSING_RULES = (
    MissingRule("DynamicResources", "spec.resourceClaims", lambda pod: bool(pod.spec.resource_claims)),
    MissingRule("GangScheduling", "spec.schedulingGroup", lambda pod: pod.spec.scheduling_group is not None),
)

NOT_BUILT = frozenset({rule.plugin for rule in MISSING_RULES} - {"DynamicResources"})
"""In-tree plugins that a configuration may name and that this version does not have; of DynamicResources the part for
pods without claims is built."""

_ALWAYS_ASKED = frozenset({"GangScheduling"})
"""Behind a feature gate that is off, where kube-scheduler would place the members one by one."""


def held_status(pod: PodInfo, enabled: Collection[str]) -> Status:
    """Success, or why the pod is held. `enabled` are the plugins that the pod's profile asks for."""
    for rule in MISSING_RULES:
        if (rule.plugin in enabled or rule.plugin in _ALWAYS_ASKED) and rule.is_needed(pod.pod):
            return _held(rule.plugin, f"its {rule.field} needs it")
    return SUCCESS


def _held(plugin: str, why: str) -> Status:
    return unresolvable(f"pod is held because kscheduler has not built {plugin} yet ({why})", plugin=plugin)
