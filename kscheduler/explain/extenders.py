"""Which HTTP extenders have a say about a pod, and what they said, if they were asked."""

from collections.abc import Iterator
from typing import Literal

from kscheduler.config.extenders import extender_name, is_queried_about
from kscheduler.config.types import Extender
from kscheduler.explain.answer import ExtenderRole
from kscheduler.scenario.decide import Decision
from kscheduler.scheduling.extenders.extender_results import ExtenderResults


def extender_roles(decision: Decision) -> tuple[ExtenderRole, ...]:
    """Those that the pod concerns, in the order of the configuration."""
    pod = decision.scenario.pod
    concerned = decision.profile.extenders if decision.profile is not None else ()
    return tuple(_role(extender, decision) for extender in concerned if is_queried_about(extender, pod))


def _role(extender: Extender, decision: Decision) -> ExtenderRole:
    name, results = extender_name(extender), decision.extender_results
    by = results.rejected_by.values() if results is not None else ()
    called_extenders = results.called_extenders if results is not None else frozenset[str]()
    if results is not None and results.victims is not None:
        called_extenders |= results.victims.called_extenders
    return ExtenderRole(
        name,
        tuple(_verbs(extender)),
        extender.ignorable,
        was_queried=name in called_extenders,
        rejected=sum(each == name for each in by),
        failure=_failure(results, name) or None,
    )


def _failure(results: ExtenderResults | None, name: str) -> str:
    """What was ignored, about nodes or about victims."""
    if results is None:
        return ""
    about_victims = results.victims.passed_over if results.victims is not None else {}
    return results.passed_over.get(name, "") or about_victims.get(name, "")


def _verbs(extender: Extender) -> Iterator[Literal["filter", "prioritize", "preempt"]]:
    if extender.filter_verb:
        yield "filter"
    if extender.prioritize_verb:
        yield "prioritize"
    if extender.preempt_verb:
        yield "preempt"
