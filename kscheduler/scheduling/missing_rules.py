"""Never wrong while unfinished: a pod that needs a rule which is not built is held, and told which.

Each entry names the in-tree plugin that will hold the rule (one of `config.unhonoured.UNBUILT_PLUGINS`), the field that
asks for it, and how to see that a pod does. A profile that disables the plugin does not ask for its rule, so its pods
are not held. When a plugin is built, its entry goes; when the table is empty, so does this file.

Extenders are such a rule too. A pod whose nodes one of them filters, or that it binds, is held; where it has a say in
preemption only, the pod is bound if it fits, and preempts nobody. Whoever is ignorable or only gives points is not
waited for: the start warns of it.
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
"""Who turns a pod down, where an extender would have been asked: kube-scheduler's name for all of them."""

_ALWAYS_ASKED = frozenset({"GangScheduling"})
"""Behind a feature gate that is off, where kube-scheduler would place the members one by one."""


def held_status(pod: PodInfo, enabled: Collection[str], extenders: Sequence[Extender] = ()) -> Status:
    """Success, or why the pod is held. `enabled` are the plugins that the pod's profile asks for.

    `extenders` are those without which no decision is right (`config.extenders.deciding`).
    """
    for rule in MISSING_RULES:
        if (rule.plugin in enabled or rule.plugin in _ALWAYS_ASKED) and rule.is_needed(pod.pod):
            return _held(rule.plugin, rule.plugin, f"its {rule.field} needs it")
    if not extenders:
        return SUCCESS
    asked = [one for one in extenders if (one.filter_verb or one.bind_verb) and is_asked_about(one, pod.pod)]
    return _held("extenders", EXTENDER, "; ".join(map(_what_it_does, asked))) if asked else SUCCESS


def preemption_status(pod: PodInfo, extenders: Iterable[Extender]) -> Status:
    """Success, or why nobody is preempted for the pod: an extender would be asked who may be."""
    asked = [extender_name(one) for one in extenders if one.preempt_verb and is_asked_about(one, pod.pod)]
    if not asked or pod.pod.spec.preemption_policy == "Never":
        return SUCCESS
    names = ", ".join(asked)
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
