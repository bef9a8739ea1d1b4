"""Rules that are not built yet: a pod that needs one is held, with a message, so that no decision is wrong.

Each entry names the in-tree plugin that will implement the rule (one of `config.unhonoured.UNBUILT_PLUGINS`), the field
of a pod that needs it, and a test for that. If a profile disables the plugin, its pods do not need the rule and are not
held. When a plugin is built, remove its entry; when the table is empty, remove this file.

Extenders are such a rule, too. A pod is held if an extender would filter its nodes or bind it. If an extender only
takes part in preemption, the pod is bound if it fits, but preempts no other pod. Extenders that are ignorable or only
give points do not hold pods: the start of the service warns about them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kscheduler.api.core import Pod
from kscheduler.config.extenders import extender_name, is_asked_about
from kscheduler.config.types import Extender
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.status import SUCCESS, Status, unresolvable, unschedulable


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

EXTENDER: Final = "Extender"
"""The plugin name in the rejection of a pod for which an extender would be called: kube-scheduler's name for all."""

_ALWAYS_HELD = frozenset({"GangScheduling"})
"""Rules that hold pods also where the plugin is disabled: with its feature gate off, kube-scheduler would place the
members of a group one by one."""


def held_status(pod: PodInfo, enabled: Collection[str], extenders: Sequence[Extender] = ()) -> Status:
    """Success, or why the pod is held. `enabled` are the plugins that the pod's profile enables.

    `extenders` are those without which no decision is right (`config.extenders.deciding`).
    """
    for rule in MISSING_RULES:
        if (rule.plugin in enabled or rule.plugin in _ALWAYS_HELD) and rule.is_needed(pod.pod):
            return _held(rule.plugin, rule.plugin, f"its {rule.field} needs it")
    if not extenders:
        return SUCCESS
    concerned = [
        extender
        for extender in extenders
        if (extender.filter_verb or extender.bind_verb) and is_asked_about(extender, pod.pod)
    ]
    return _held("extenders", EXTENDER, "; ".join(map(_what_it_does, concerned))) if concerned else SUCCESS


def preemption_status(pod: PodInfo, extenders: Iterable[Extender]) -> Status:
    """Success, or why no pod is preempted for this one: an extender would have to approve the victims."""
    concerned = [
        extender_name(extender) for extender in extenders if extender.preempt_verb and is_asked_about(extender, pod.pod)
    ]
    if not concerned or pod.pod.spec.preemption_policy == "Never":
        return SUCCESS
    names = ", ".join(concerned)
    why = f"not tried because kscheduler has not built extenders yet (extender {names} has a say in it)"
    return unschedulable(f"preemption: {why}", plugin=EXTENDER)


def _what_it_does(extender: Extender) -> str:
    tasks = list(_tasks(extender))
    return f"extender {extender_name(extender)} {' and '.join(tasks)}"


def _tasks(extender: Extender) -> Iterator[str]:
    if extender.filter_verb:
        yield "filters its nodes"
    if extender.bind_verb:
        yield "binds it"


def _held(rule: str, plugin: str, why: str) -> Status:
    return unresolvable(f"pod is held because kscheduler has not built {rule} yet ({why})", plugin=plugin)
