"""A decision about a pod, or its group, with all that is said beside it: the typed answer, and the text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kscheduler.explain.against import against
from kscheduler.explain.answer import Against, PodExplanation
from kscheduler.explain.group_answer import PodGroupExplanation
from kscheduler.explain.group_explanation import group_explanation
from kscheduler.explain.group_text import group_text
from kscheduler.explain.in_service import InService
from kscheduler.explain.node_text import comparison_text
from kscheduler.explain.pod_explanation import pod_explanation
from kscheduler.explain.pod_text import decision_text
from kscheduler.explain.queries.explain_query import ExplainQuery, GroupExplainQuery
from kscheduler.explain.situation import NO_SITUATION, Situation
from kscheduler.explain.suggestions.as_text import suggestions_text
from kscheduler.explain.suggestions.of_group import suggested_for_group
from kscheduler.explain.suggestions.search_time import SearchTime
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.explain.suggestions.suggestion_rules import suggested
from kscheduler.scenario.decide import Decision
from kscheduler.scenario.decide_group import GroupDecision
from kscheduler.text import PLAIN, Style, printable


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known; `found` and `compared` only where they were asked for."""

    decision: Decision | GroupDecision
    situation: Situation = NO_SITUATION
    notes: tuple[str, ...] = ()
    found: Sequence[Suggestion] | None = None
    compared: Against | None = None
    of_group: InService | None = None
    """What the running service knows of the group that was asked about."""
    left_off: str = ""
    """Why `found` may not be all."""

    @property
    def emulation_version(self) -> str:
        """The kube-scheduler by whose rules it was decided."""
        return self.decision.scenario.config.gates.version

    @property
    def answer(self) -> PodExplanation | PodGroupExplanation:
        """For programs: JSON is its encoding (`text.json_line`)."""
        notes = (*self.notes, self.left_off) if self.left_off else self.notes
        if isinstance(self.decision, GroupDecision):
            return group_explanation(self.decision, self.found, self.of_group, notes)
        return pod_explanation(self.decision, self.situation, notes, self.found, self.compared)

    def as_text(self, style: Style = PLAIN) -> str:
        """For people, without a final line end and without the notes."""
        if isinstance(self.decision, GroupDecision):
            text = group_text(self.decision, self.found, self.of_group, self.left_off)
            return "\n".join(map(printable, text.splitlines()))
        text = decision_text(self.decision, style, self.situation)
        if self.compared is not None:
            text += f"\n{comparison_text(self.compared, style)}"
        if self.found is not None:
            text += f"\n{suggestions_text(self.found, self.decision.scenario, self.situation, style, self.left_off)}"
        return text


_TOGETHER: Final = "members of a pod group are decided about together"


def answered(
    query: ExplainQuery | GroupExplainQuery,
    decision: Decision | GroupDecision,
    *,
    against_node: str = "",
    with_suggestions: bool = True,
    time: SearchTime | None = None,
) -> Explanation:
    """The decision with what makes the pod fit, and with another node beside its own.

    `time`: for the search, where it is one of many.
    """
    notes, time = (*query.notes, *decision.notes), time or SearchTime()
    if isinstance(decision, GroupDecision) or isinstance(query, GroupExplainQuery):
        helping = (
            suggested_for_group(decision, time) if with_suggestions and isinstance(decision, GroupDecision) else None
        )
        known = query.in_service if isinstance(query, GroupExplainQuery) else None
        notes = (*notes, f"nodes of one member are not compared: {_TOGETHER}") if against_node else notes
        return Explanation(decision, notes=notes, found=helping, of_group=known, left_off=time.left_off)
    situation = query.situation
    found = suggested(decision, situation, time) if with_suggestions else None
    compared = against(decision, against_node, situation) if against_node else None
    return Explanation(decision, situation, notes, found, compared, left_off=time.left_off)
