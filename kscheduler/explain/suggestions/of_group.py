"""What would make a waiting pod group fit: for people and for programs.

Changes of what the members ask for are made in each of them, so their command is that of their controller, once (a
StatefulSet's pods are then deleted together), or one for all pods without a controller that change alike; none where a
Job makes them, or another controller whose template kubectl cannot change, or where one command would name too many.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kscheduler.answers.suggestions import SuggestionAnswer
from kscheduler.api.core import Pod
from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.as_answer import suggestion_answer
from kscheduler.explain.suggestions.as_text import suggestion_text
from kscheduler.explain.suggestions.commands import (
    MAX_NAMED,
    command_note,
    command_of,
    commands_of_members,
    maker_in_the_way,
    only_in_the_file,
)
from kscheduler.explain.suggestions.group_search import group_suggestions
from kscheduler.explain.suggestions.makers import PodMaker, nothing_to_run
from kscheduler.explain.suggestions.missing_claims import missing_claims
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.scenario.scenario import Scenario
from kscheduler.text import nodes

_MOST: Final = 5
_IN_THE_FILE: Final = "the members are in the file: change them in the file"


def suggested_for_group(decision: GroupDecision, time: SearchTime | None = None) -> Sequence[Suggestion] | None:
    """The suggestions for a group that does not fit, the smallest first; `None` for any other."""
    fits = decision.status is not None and decision.status.is_success
    if decision.error or fits or decision.inputs is None or not len(decision.inputs.cache.nodes):
        return None
    return group_suggestions(decision.inputs, time)


def group_suggestion_answers(
    found: Sequence[Suggestion] | None, decision: GroupDecision
) -> tuple[SuggestionAnswer, ...] | None:
    """As of a pod; `nodes`: on how many nodes the members would be."""
    pods = _pods(decision)
    if found is None or not pods:
        return None
    scenario = Scenario(decision.scenario.objects, pods[0], decision.scenario.config)
    return tuple(_answer(each, scenario, decision) for each in found)


def _answer(suggestion: Suggestion, scenario: Scenario, decision: GroupDecision) -> SuggestionAnswer:
    return msgspec.structs.replace(
        suggestion_answer(suggestion, scenario, NO_SITUATION),
        text=_text(suggestion, decision),
        command=_command(suggestion, decision),
        command_note=_note(suggestion, decision),
    )


def group_suggestion_lines(found: Sequence[Suggestion], decision: GroupDecision, left_off: str = "") -> Iterator[str]:
    """Lines below the group's own. `left_off`: why there may be others."""
    if left_off:
        yield left_off
    if not found:
        nothing = [] if left_off else ["none of the changes that were tried makes it fit"]
        yield from _missing(decision) or nothing
        return
    yield "changes that would make it fit, the smallest first; each was tried:"
    for number, each in enumerate(found[:_MOST], 1):
        facts = each.steps[0].facts
        where = f"{facts.placed} of {facts.waiting} waiting members, on {nodes(each.nodes)}"
        yield f"  {number}. {_text(each, decision)} ({where})"
        if command := _command(each, decision):
            yield f"     {command}"
        if note := _note(each, decision):
            yield f"     ({note})"
    if len(found) > _MOST:
        yield f"     and {len(found) - _MOST} more with -o json"


def _missing(decision: GroupDecision) -> list[str]:
    """What members wait for that has to be created first, each thing once."""
    scenario = decision.scenario
    each = (
        missing_claims(Scenario(scenario.objects, pod, scenario.config, claim_templates=scenario.claim_templates))
        for pod in _pods(decision)
    )
    return list(dict.fromkeys(line for lines in each for line in lines))


def _text(suggestion: Suggestion, decision: GroupDecision) -> str:
    text = suggestion_text(suggestion)
    return f"in {_subject(suggestion, decision)}: {text}" if _is_of_members(suggestion) else text


def _subject(suggestion: Suggestion, decision: GroupDecision) -> str:
    """Which of the members change."""
    count, first = len(suggestion.changes), suggestion.changes[0].name
    if count == len(_pods(decision)):
        return "each member"
    return first if count == 1 else f"the {count} members like {first}"


def _is_of_members(suggestion: Suggestion) -> bool:
    return suggestion.changes[0].resource == "pods" and not suggestion.steps[0].facts.is_of_group


def _command(suggestion: Suggestion, decision: GroupDecision) -> str:
    objects, pods = decision.scenario.objects, _pods(decision)
    if only_in_the_file(suggestion, decision.scenario.of_file):
        return ""
    if not _is_of_members(suggestion):
        return command_of(suggestion, pods[0], objects, NO_SITUATION)
    if _makers_in_the_way(suggestion, decision):
        return ""
    return " && ".join(commands_of_members(suggestion, pods, objects))


def _note(suggestion: Suggestion, decision: GroupDecision) -> str:
    if note := only_in_the_file(suggestion, decision.scenario.of_file):
        return _IN_THE_FILE if _is_of_members(suggestion) else note
    if makers := _makers_in_the_way(suggestion, decision):
        return nothing_to_run(makers)
    if not _is_of_members(suggestion):
        first, objects = _pods(decision)[0], decision.scenario.objects
        facts = suggestion.steps[0].facts
        of_group = facts.no_command(first, objects, is_new=False) if facts.is_of_group else ""
        return of_group or command_note(suggestion, first, objects, NO_SITUATION)
    if not _command(suggestion, decision):
        return _too_many(len(suggestion.changes))
    changed = {change.name for change in suggestion.changes}
    of_changed = (pod for pod in _pods(decision) if pod.metadata.name in changed)
    if not any(command_note(suggestion, pod, decision.scenario.objects, NO_SITUATION) for pod in of_changed):
        return ""
    if len(changed) == 1:
        return f"the command deletes {changed.pop()} and creates it again: a pod cannot be changed so in place"
    each = "each member" if len(changed) == len(_pods(decision)) else "each of them"
    return f"the command deletes {each} and creates it again: a pod cannot be changed so in place"


def _too_many(count: int) -> str:
    """Why there is no command where kubectl could make each change by itself."""
    head = f"no single command does it: {count} members would have to change"
    if count > MAX_NAMED:
        return f"{head}, and a command names {MAX_NAMED} at most: change what makes them"
    return f"{head}, and their makers are too many for one line: change the template of each"


def _makers_in_the_way(suggestion: Suggestion, decision: GroupDecision) -> list[PodMaker]:
    if not _is_of_members(suggestion):
        return []
    objects = decision.scenario.objects
    found = (maker_in_the_way(suggestion, pod, objects) for pod in _pods(decision))
    return [maker for maker in found if maker is not None]


def _pods(decision: GroupDecision) -> list[Pod]:
    return [] if decision.inputs is None else [member.pod for member in decision.inputs.members]
