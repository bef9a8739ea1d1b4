"""One attempt to place one pod group: decide about all members, then hand those that have a node to their attempts.

    checks -> drop members that need no node -> the group's cycle -> room by preemption? -> submit
                                                                                              |
        has a node: assume, Reserve, Permit; bound by the workers like any pod   <------------+
        has none:   condition, Event, back into its group                        <------------+

Nothing here awaits, so no other decision lies between the cycle and the moment when the members count on their nodes.
Where members concern HTTP extenders, the cycle is run as often as it has questions for them
(`member_extender_results`). While they are asked, nothing is reserved, and the group is in its attempt all the same.

Likewise where devices take long to find: a member whose search is longer than a slice ends the trial, the search is
done beside other decisions, and the group is tried again with what was found. A group whose searches do not come to an
end so fails alone: nobody else waits for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

import msgspec

from kscheduler.aio.clock import Clock
from kscheduler.api.releases import Behaviours
from kscheduler.framework.cluster.claim_writing import ClaimWriter
from kscheduler.framework.cluster.pod_groups import CycleOfGroup, GroupDefinition, GroupKey
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.nodes.search_budget import UnfinishedSearch
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.framework.status import Code, Fault, Status, error
from kscheduler.scheduling.attempt.context import Attempt, PreemptionRunner
from kscheduler.scheduling.attempt.evaluators import Evaluators
from kscheduler.scheduling.attempt.long_searches import SLICE_SECONDS, search_budget_for
from kscheduler.scheduling.attempt.skipping import PodSkipping
from kscheduler.scheduling.attempt_events import (
    GroupAttempted,
    GroupCycleTimed,
    GroupPreemptionSearched,
    PermitGivenAtOnce,
    PlacementsTried,
)
from kscheduler.scheduling.cycle.visiting_ties import TieBreakingSampler
from kscheduler.scheduling.extenders.extender_results import Extenders
from kscheduler.scheduling.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure
from kscheduler.scheduling.groups.composite_cycle import place_group, tree_inputs
from kscheduler.scheduling.groups.group_checks import check_group
from kscheduler.scheduling.groups.group_cycle import GroupInputs, GroupResult, MemberResult
from kscheduler.scheduling.groups.group_preemption import group_condition, member_verdict, run_group_post_filter
from kscheduler.scheduling.groups.group_status_writer import GroupReports
from kscheduler.scheduling.groups.member_extender_results import AT_A_TIME, MemberExtenderResults, first_answers
from kscheduler.scheduling.in_time import GroupBudget, TimedCycles
from kscheduler.scheduling.observations import GroupAttemptResult
from kscheduler.scheduling.observers import Observers
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.record import SchedulingRecord
from kscheduler.state.cache import Cache
from kscheduler.state.queue.queued_group import GroupOutcome, QueuedPodGroup
from kscheduler.state.queue.scheduling_queue import SchedulingQueue
from kscheduler.state.waiting_pods import WaitingPodTable
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.caught import Boundary, count_caught

# How often a group is tried again after a long search in one attempt.
MAX_SEARCHES: Final = 64
# What members that search for devices may take of one trial, all of them together; each by itself has a slice.
MAX_SEARCH_SECONDS: Final = 1.0
SEARCHED_TOO_LONG: Final = (
    f"the search for the devices of the group's claims takes too long: retried {MAX_SEARCHES} times, or more than "
    f"{MAX_SEARCH_SECONDS:g} s in one trial"
)

_log = get_logger(__name__)


class MemberSteps(Protocol):
    """The steps of an ordinary attempt that a member goes through: `Scheduler`."""

    def take(self, attempt: Attempt) -> bool:
        """Reserve the node that the record names. Whether that went well; if not, the attempt is over."""
        ...

    def fail(self, queued: QueuedPodInfo, failure: Failure, profile: Profile, started: float) -> None:
        """Requeue the pod, and report why."""
        ...

    def give_up(self, queued: QueuedPodInfo, failure: BaseException) -> None:
        """An exception has ended the attempt."""
        ...


@dataclass(slots=True)
class _Tried:
    """A group in its attempt."""

    queued: QueuedPodGroup
    definition: GroupDefinition
    profile: Profile
    started: float
    seconds: dict[str, float]
    """By UID of a member: how long deciding about it took."""
    consultation: "GroupConsultation"
    budget: GroupBudget
    """What deciding about its members may still take."""
    search_seconds: float = MAX_SEARCH_SECONDS
    """What is left for members that search for devices."""
    rest: UnfinishedSearch | None = None
    """What the trial under way has left; it is worth nothing then."""

    @property
    def answers(self) -> MemberExtenderResults:
        """What extenders have said."""
        return self.consultation.answers


@dataclass(slots=True)
class GroupConsultation:
    """A group that is in its attempt, and about whose members extenders must be asked, or devices be searched."""

    group: QueuedPodGroup
    answers: MemberExtenderResults
    extenders: Extenders | None
    """Those in force when the attempt began; `None`: nobody asks, or the answers were recorded."""
    started: float
    """Monotonic seconds."""
    rest: UnfinishedSearch | None = None
    """The search that comes before the next trial."""
    searches: int = 0
    """How many there were."""

    @property
    def pods(self) -> Sequence[PodInfo]:
        """All members that were popped."""
        return [queued.pod for queued in self.group.members.values()]


class GroupAttempts:
    """Tries pod groups."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        waiting: WaitingPodTable,
        cycles: TimedCycles,
        skipping: PodSkipping,
        evaluators: Callable[[], Evaluators],
        steps: MemberSteps,
        evictions: PreemptionRunner,
        claims: ClaimWriter | None,
        reports: GroupReports,
        observers: Observers,
        clock: Clock,
    ) -> None:
        """`evaluators`: those in force. `claims` frees claims of their devices. `reports`: conditions of the groups."""
        self._cache = cache
        self._queue = queue
        self._waiting = waiting
        self._evictions = evictions
        self._claims = claims
        self._reports = reports
        self._tell = observers.tell
        self._clock = clock
        self._cycles = cycles
        self._now = clock.monotonic
        self._skipping = skipping
        self._evaluators = evaluators
        self._steps = steps
        self._alone: dict[str, tuple[Profile, Profile]] = {}
        """By name a profile, and the same without PostFilter."""
        self._samplers: dict[str, TieBreakingSampler] = {}
        """By name of a profile."""
        self._search_turn = asyncio.Lock()
        self._turns = asyncio.Semaphore(AT_A_TIME)
        """How many members extenders are asked about at a time, of all groups."""

    def decide(self, group: QueuedPodGroup) -> list[Attempt] | GroupConsultation:
        """Find nodes for the group's members, and reserve them; the attempts of those that have one, to be bound.

        Or what extenders must be asked before that: `ask`, and then `decide_consulted`.
        """
        return self._decide(self._unasked(group, self._now()), self._skipping.why_skip, self._skipping.skips)

    def decide_consulted(self, consultation: GroupConsultation) -> list[Attempt] | GroupConsultation:
        """The same when extenders have answered. If others are in force by now, they are asked from the beginning."""
        if self._evaluators().extenders is not consultation.extenders:
            searches = consultation.searches
            consultation = self._unasked(consultation.group, consultation.started)
            consultation.searches = searches
        return self._decide(consultation, self._skipping.why_let_go, self._skipping.lets_go)

    async def ask(self, consultation: GroupConsultation) -> None:
        """Finish the search, ask the extenders. Never raises for their sake."""
        rest, consultation.rest = consultation.rest, None
        if rest is not None:
            async with self._search_turn:
                members = consultation.group.members.values()
                # Work, and a turn for others; until all are gone: then nobody needs what is found.
                while not (all(map(self._skipping.why_let_go, members)) or rest.run(SLICE_SECONDS)):  # noqa: ASYNC110
                    await asyncio.sleep(0)
        if consultation.extenders is not None:
            await consultation.answers.ask(consultation.extenders, consultation.pods, self._turns)

    def _unasked(self, group: QueuedPodGroup, started: float) -> GroupConsultation:
        extenders = self._evaluators().extenders
        answers = first_answers(extenders, [queued.pod for queued in group.members.values()])
        return GroupConsultation(group, answers, extenders, started)

    def _decide(
        self,
        consultation: GroupConsultation,
        why_not: Callable[[QueuedPodInfo], str],
        end: Callable[[QueuedPodInfo], bool],
    ) -> list[Attempt] | GroupConsultation:
        """`why_not`: why a member needs no node, or an empty text; `end` ends the attempt of such a member."""
        evaluators, group = self._evaluators(), consultation.group
        table, members = self._cache.pod_groups, group.in_order(self._cache.nodes.tie_name)
        definition = table.definition(group.key)
        if definition is None:  # it was deleted while its members were on their way
            kind = "compositepodgroup" if group.key.is_composite else "podgroup"
            self._end_undecided(group, members, error(f'{kind}.{group.key.api} "{group.key.name}" not found'), None)
            return []
        pods = [queued.pod for queued in members]
        status = check_group(table, definition, pods, evaluators.profiles)
        if not status.is_success:
            self._end_undecided(group, members, status, definition)
            return []
        needless = {queued.key: queued for queued in members if why_not(queued)}
        members = [queued for queued in members if queued.key not in needless]
        if not members:
            self._end_members(needless.values(), end)
            self._queue.group_attempted(group, GroupOutcome.SUCCESS, self._clock.time())
            return []
        profile = evaluators.profiles[members[0].pod.pod.spec.scheduler_name]
        budget = GroupBudget(len(members), has_overrun=any(queued.overruns for queued in members))
        tried = _Tried(group, definition, profile, consultation.started, {}, consultation, budget)
        result = self._search(tried, members)
        if result is None:
            return consultation
        self._end_members(needless.values(), end)
        return self._act_on(tried, members, result)

    @staticmethod
    def _end_members(needless: Iterable[QueuedPodInfo], end: Callable[[QueuedPodInfo], bool]) -> None:
        for queued in needless:
            end(queued)

    def give_up(self, group: QueuedPodGroup, failure: BaseException) -> None:
        """An exception has ended the decision: nothing is reserved any more, and all members are tried again later."""
        _log.error("group_decision_failed", group=group.key.text, pods=len(group), exc_info=failure)
        text = f"{type(failure).__name__}: {failure}"
        for queued in group.members.values():
            if self._queue.is_in_flight(queued.pod.uid) and not self._cache.node_of(queued.pod.uid):
                queued.last_error = text  # it has been logged with its traceback
                self._steps.give_up(queued, failure)
        self._queue.group_attempted(group, GroupOutcome.ERROR, self._clock.time())

    def _end_undecided(
        self,
        group: QueuedPodGroup,
        members: Sequence[QueuedPodInfo],
        status: Status,
        definition: GroupDefinition | None,
    ) -> None:
        """The group cannot be tried: an error for each member, and for the group if there still is one."""
        profiles, started = self._evaluators().profiles, self._now()
        for queued in members:
            profile = profiles.get(queued.pod.pod.spec.scheduler_name)
            if profile is None:
                self._skipping.end(queued, "no profile has its name")
            else:
                self._steps.fail(queued, Failure(status.message, SCHEDULER_ERROR), profile, started)
        if definition is not None:
            behaviours = next(iter(profiles.values())).behaviours
            self._report_to_all(definition, status, behaviours)
        self._queue.group_attempted(group, GroupOutcome.ERROR, self._clock.time())

    def _report_to_all(self, definition: GroupDefinition, status: Status, behaviours: Behaviours) -> None:
        """The same to each group of the tree."""
        self._report_to(definition, status, behaviours)
        for child in self._cache.pod_groups.children(definition.key) if definition.key.is_composite else ():
            self._report_to_all(child, status, behaviours)

    def _report_to(self, group: GroupDefinition, status: Status, behaviours: Behaviours) -> None:
        """Up to 1.37 composite groups get no condition, as from kube-scheduler."""
        is_composite = group.key.is_composite
        if behaviours.composites_have_conditions or not is_composite:
            condition = group_condition(status, is_composite=is_composite)
            self._reports.report(group, condition, is_final=behaviours.scheduled_groups_are_final)

    # --- the cycle ----------------------------------------------------------------------------------------------------

    def _search(self, tried: _Tried, members: Sequence[QueuedPodInfo]) -> GroupResult | None:
        """The group's cycle, and the search for room; `None`: extenders must be asked first, or devices be searched,
        and nothing was done.
        """
        cache, pods = self._cache, [queued.pod for queued in members]
        sampler = self._sampler(tried.profile)
        start = sampler.next_start
        judge = partial(self._judge, tried, by_class=True)
        inputs = tree_inputs(GroupInputs(tried.definition, pods, tried.profile, cache, judge), cache.pod_groups)
        searches: list[PlacementsTried] = []

        def note_search(key: GroupKey, searched: GroupResult) -> None:
            # Up to 1.37 kube-scheduler counts placements of groups of pods only.
            if inputs.behaviours.labels_entities or not key.is_composite:
                trials = [(each.status.is_success, each.seconds) for each in searched.placements]
                searches.append(PlacementsTried(tried.profile.name, key.entity, searched.generated, trials))

        place = partial(place_group, on_tried=note_search)
        result = place(inputs)
        if not _is_open(tried):
            self._tell(GroupCycleTimed(tried.profile.name, tried.definition.key.entity, self._now() - tried.started))
            self._look_for_room(inputs, tried, result, place)
        if _is_open(tried):
            sampler.next_start = start
            tried.consultation.rest = tried.rest
            tried.consultation.searches += tried.rest is not None
            return None
        for search in searches:
            self._tell(search)
        return result

    def _act_on(self, tried: _Tried, members: Sequence[QueuedPodInfo], result: GroupResult) -> list[Attempt]:
        outcome = _outcome_of(result.status)
        if result.preemption is not None:  # before requeueing: PreEnqueue checks whether the members must wait
            self._evictions.begin(result.preemption)
        if self._claims is not None:
            for each in result.deallocations:
                self._claims.free(each)
        attempts = self._submit(tried, members, result)
        self._report(tried, result, len(attempts))
        self._queue.group_attempted(tried.queued, outcome, self._clock.time())
        if result.preemption is not None:
            self._evictions.requeued(result.preemption.uid)
        return attempts

    def _look_for_room(
        self, inputs: GroupInputs, tried: _Tried, result: GroupResult, place: Callable[[GroupInputs], GroupResult]
    ) -> None:
        if result.status.code is not Code.UNSCHEDULABLE:
            return
        began = self._now()
        by_plugins = inputs.judged_by(partial(self._judge, tried))
        searched = run_group_post_filter(by_plugins, result, place)
        found = Code.SUCCESS if result.waits_for_preemption else Code.UNSCHEDULABLE
        label = searched or found.label if result.status.is_rejected else Code.ERROR.label
        profile, kind = tried.profile.name, tried.definition.key.entity
        self._tell(GroupPreemptionSearched(profile, kind, searched, label, self._now() - began))

    def _judge(
        self, tried: _Tried, pod: PodInfo, rows: Rows | None, trial: CycleOfGroup, *, by_class: bool = False
    ) -> SchedulingRecord:
        """The ordinary cycle. No member preempts by itself: that is decided for the group as a whole."""
        evaluators, began = self._evaluators(), self._now()
        name = tried.profile.name
        stopwatch = evaluators.stopwatches[name]
        stopwatch.start(pod)
        alone = self._without_post_filter(tried.profile)
        engine = evaluators.engines.get(name) if by_class else None
        sampler, answers = self._sampler(tried.profile), tried.answers.of(pod)
        search_budget = search_budget_for(pod, self._cache, self._clock, most_seconds=tried.search_seconds)
        record = self._cycles.schedule_member(
            pod, tried.budget, trial, alone, stopwatch, sampler, engine, answers, rows, search_budget
        )
        tried.answers.check(record)
        seconds = tried.seconds[pod.uid] = self._now() - began
        if search_budget is not None and search_budget.has_begun:
            tried.search_seconds = max(0.0, tried.search_seconds - seconds)
        if search_budget is not None and search_budget.rest is not None:
            if not tried.search_seconds or tried.consultation.searches >= MAX_SEARCHES:
                record.status = error(SEARCHED_TOO_LONG, fault=Fault.CLAIM)
            else:
                tried.rest = search_budget.rest
        return record

    def _sampler(self, profile: Profile) -> TieBreakingSampler:
        known = self._samplers.get(profile.name)
        if known is None:
            known = self._samplers[profile.name] = TieBreakingSampler()
        return known

    def _without_post_filter(self, profile: Profile) -> Profile:
        """The profile for members. Kept, because a copy works out the traits of all plugins again."""
        known = self._alone.get(profile.name)
        if known is None or known[0] is not profile:
            known = self._alone[profile.name] = profile, replace(profile, post_filter=())
        return known[1]

    # --- what follows -------------------------------------------------------------------------------------------------

    def _submit(self, tried: _Tried, members: Sequence[QueuedPodInfo], result: GroupResult) -> list[Attempt]:
        extenders, attempts = self._evaluators().extenders, []
        waiting = {queued.pod.uid: queued for queued in members}
        for part, member in ((group, member) for group in result.parts for member in group.members):
            queued = waiting[member.pod.uid]
            verdict = member_verdict(part, member, tried.profile.behaviours)
            started = self._now() - tried.seconds.get(queued.pod.uid, 0.0)
            if not verdict.status.is_success or verdict.record is None:
                answers = tried.answers.of(queued.pod)
                objectors = () if answers is None else answers.objectors
                failure = msgspec.structs.replace(_failure_of(verdict), extender=", ".join(objectors))
                self._steps.fail(queued, failure, tried.profile, started)
                continue
            attempt = Attempt(queued, tried.profile, verdict.record, started, extenders)
            try:
                if self._steps.take(attempt):
                    attempts.append(attempt)
            except BaseException as failure:  # noqa: BLE001  the other members' attempts must not be lost
                count_caught(Boundary.WORKER)
                self._steps.give_up(queued, failure)
        for attempt in attempts:
            self._let_go_if_decided(attempt)
        return attempts

    def _let_go_if_decided(self, attempt: Attempt) -> None:
        """Who waited for Permit only until the last member was placed need not wait in a task of its own."""
        held = attempt.held
        if held is not None and held.verdict is not None and held.verdict.is_success:
            self._waiting.release(held.pod.uid)
            self._tell(PermitGivenAtOnce(held.verdict.code.label))
            attempt.held = None

    def _report(self, tried: _Tried, result: GroupResult, placed: int) -> None:
        status = result.status
        for each in result.whole:
            self._report_to(each.group or tried.definition, each.status, tried.profile.behaviours)
        key, profile, seconds = tried.definition.key, tried.profile.name, self._now() - tried.started
        counts = placed, len(result.all_members), tried.queued.attempts
        result_label = _result_label(result)
        self._tell(GroupAttempted(key.text, key.entity, result_label, profile, seconds, status.message, *counts))


def _is_open(tried: _Tried) -> bool:
    """Whether the trial ended before it had an answer."""
    return tried.rest is not None or tried.answers.query is not None


def _outcome_of(status: Status) -> GroupOutcome:
    if status.is_success:
        return GroupOutcome.SUCCESS
    return GroupOutcome.REJECTED if status.is_rejected else GroupOutcome.ERROR


def _result_label(result: GroupResult) -> GroupAttemptResult:
    if result.status.is_success:
        return GroupAttemptResult.SCHEDULED
    if not result.status.is_rejected:
        return GroupAttemptResult.ERROR
    waits = result.waits_for_preemption
    return GroupAttemptResult.WAITING_ON_PREEMPTION if waits else GroupAttemptResult.UNSCHEDULABLE


def _failure_of(member: MemberResult) -> Failure:
    status, nominated = member.status, member.nominated_node_name
    if status.code is Code.ERROR:
        return Failure(status.message, SCHEDULER_ERROR, nominated_node_name="", fault=status.fault)
    return Failure(status.message, UNSCHEDULABLE, member.plugins, nominated_node_name=nominated)
