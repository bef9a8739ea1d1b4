"""Conditions of groups are written in the background: the newest wins, failures are tried again."""

import asyncio
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.groups import COMPOSITES, POD_GROUPS
from kscheduler.api.meta import Condition
from kscheduler.client.errors import APIError, APIStatus, ClientError, NotSentError
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.scheduling.groups import group_status_writer
from kscheduler.scheduling.groups.group_status_writer import MAX_TRIES, GroupReport, GroupReports, GroupStatusWriter
from kscheduler.state.group_apis import KUBERNETES, VOLCANO, kubernetes_apis
from kscheduler.state.pod_groups import PodGroupTable
from tests.scheduling.groups.world import ReportedGroups

KEY = GroupKey("scheduling.k8s.io", "default", "g")
GROUP = GroupDefinition(KEY, 2, uid="u", generation=3)
TYPE = "PodGroupInitiallyScheduled"
NO = Condition(TYPE, "False", "Unschedulable", "no room")
YES = Condition(TYPE, "True", "Scheduled", "")


class Patches:
    """Fails so often, then takes everything."""

    def __init__(self, failures: int = 0, failure: ClientError | None = None) -> None:
        self.failures = failures
        self.failure = failure or NotSentError("away")
        self.sent: list[tuple[str, str, str, str | None]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def patch_condition(
        self, collection: str, namespace: str, name: str, uid: str, condition: Condition, since: str | None
    ) -> None:
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise self.failure
        self.sent.append((f"{collection}/{namespace}/{name}", uid, condition.status, since))


async def turns(clock: VirtualClock, seconds: float = 0.0) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    if seconds:
        await clock.advance(seconds)
        await turns(clock)


def report(condition: Condition) -> GroupReport:
    return GroupReport(GROUP, POD_GROUPS, condition, lambda: None)


async def test_a_condition_is_sent_and_after_a_failure_again() -> None:
    clock, patches = VirtualClock(), Patches(failures=2)
    writer = GroupStatusWriter(patches, clock)
    writer.report_group(report(NO))
    for _ in range(5):
        await turns(clock, 1.0)
    assert patches.sent == [("scheduling.k8s.io/v1beta1/podgroups/default/g", "u", "False", None)]


async def test_only_the_newest_of_what_is_not_sent_yet_is_sent() -> None:
    clock, patches = VirtualClock(), Patches()
    patches.gate.clear()
    writer = GroupStatusWriter(patches, clock)
    writer.report_group(report(NO))
    await turns(clock)
    for _ in range(3):
        writer.report_group(report(NO))
    writer.report_group(report(YES))
    patches.gate.set()
    await turns(clock)
    assert [sent[2] for sent in patches.sent] == ["False", "True"]
    assert await writer.flush(1.0)


def reports() -> tuple[GroupReports, ReportedGroups, PodGroupTable]:
    sink, table = ReportedGroups(), PodGroupTable([KUBERNETES, VOLCANO])
    table.put(GROUP)
    return GroupReports(sink, table), sink, table


def known(table: PodGroupTable) -> GroupDefinition:
    definition = table.definition(KEY)
    assert definition is not None
    return definition


def test_the_same_is_said_once_and_true_stays_true() -> None:
    reporter, sink, table = reports()
    for condition in (NO, NO, YES, NO, YES):
        reporter.report(known(table), condition)
    assert [condition.status for _, condition in sink.conditions] == ["False", "True"]
    assert {condition.observed_generation for _, condition in sink.conditions} == {3}


def test_groups_of_other_projects_get_none_of_our_conditions() -> None:
    reporter, sink, _ = reports()
    reporter.report(GroupDefinition(GroupKey("scheduling.volcano.sh", "default", "g"), 2), NO)
    assert sink.conditions == []


@pytest.mark.parametrize("version", COMPOSITES)
async def test_a_composite_group_is_written_in_the_version_that_is_followed(version: str) -> None:
    clock, patches = VirtualClock(), Patches()
    table = PodGroupTable(kubernetes_apis(None, COMPOSITES[version]))
    group = replace(GROUP, key=KEY._replace(is_composite=True))
    table.put(group)
    GroupReports(GroupStatusWriter(patches, clock), table).report(group, YES)
    await turns(clock)
    assert [sent[0] for sent in patches.sent] == [f"scheduling.k8s.io/{version}/compositepodgroups/default/g"]


def writing(patches: Patches, clock: VirtualClock) -> tuple[Callable[[Condition], None], PodGroupTable]:
    """Reports a condition of the group as the table knows it then, in the background."""
    table = PodGroupTable([KUBERNETES])
    table.put(GROUP)
    reporter = GroupReports(GroupStatusWriter(patches, clock), table)
    return lambda condition: reporter.report(known(table), condition), table


FORBIDDEN = APIError(APIStatus("Status", 403, "Forbidden", "no"))


@pytest.mark.parametrize(("failures", "failure"), [(1, FORBIDDEN), (MAX_TRIES, NotSentError("away"))])
@pytest.mark.parametrize("condition", [NO, YES])
async def test_what_could_not_be_written_is_written_by_the_next_attempt(
    failures: int, failure: ClientError, condition: Condition
) -> None:
    clock, patches = VirtualClock(), Patches(failures, failure)
    say, table = writing(patches, clock)
    say(condition)
    for _ in range(failures):
        await turns(clock, 30.0)
    assert patches.sent == []
    table.put(replace(GROUP, priority=1))  # a change of something else
    for _ in range(2):
        say(condition)
        await turns(clock, 30.0)
    assert [sent[2] for sent in patches.sent] == [condition.status]


async def test_what_gives_way_to_more_groups_than_may_wait_is_written_by_the_next_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_status_writer, "MAX_WAITING", 1)
    clock, patches, table = VirtualClock(), Patches(), PodGroupTable([KUBERNETES])
    other = replace(GROUP, key=KEY._replace(name="other"))
    table.put(GROUP)
    table.put(other)
    reporter = GroupReports(GroupStatusWriter(patches, clock), table)
    for group in (GROUP, other):
        reporter.report(group, YES)
    await turns(clock)
    reporter.report(known(table), YES)
    await turns(clock)
    assert [sent[0].rpartition("/")[2] for sent in patches.sent] == ["other", "g"]


async def test_what_is_being_written_is_known_whatever_the_watch_shows_meanwhile() -> None:
    clock, patches = VirtualClock(), Patches(1, FORBIDDEN)
    patches.gate.clear()
    say, table = writing(patches, clock)
    say(YES)
    await turns(clock)
    later = replace(GROUP, priority=1)
    table.put(later)
    assert [each.status for each in known(table).conditions] == ["True"]
    patches.gate.set()
    await turns(clock)
    assert known(table) == later


async def test_a_failure_does_not_take_back_what_was_reported_since() -> None:
    clock, patches = VirtualClock(), Patches(1, FORBIDDEN)
    patches.gate.clear()
    say, table = writing(patches, clock)
    say(NO)
    await turns(clock)
    say(YES)
    patches.gate.set()
    await turns(clock)
    assert [sent[2] for sent in patches.sent] == ["True"]
    assert [each.status for each in known(table).conditions] == ["True"]
