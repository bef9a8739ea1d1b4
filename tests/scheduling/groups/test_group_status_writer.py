"""Conditions of groups are written in the background: the newest wins, failures are tried again."""

import asyncio

from kscheduler.aio.clock import VirtualClock
from kscheduler.api.meta import Condition
from kscheduler.client.errors import NotSentError
from kscheduler.framework.cluster.pod_groups import GroupDefinition, GroupKey
from kscheduler.scheduling.groups.group_status_writer import GroupReports, GroupStatusWriter
from kscheduler.state.group_apis import KUBERNETES, VOLCANO
from kscheduler.state.pod_groups import PodGroupTable
from tests.scheduling.groups.world import ReportedGroups

KEY = GroupKey("scheduling.k8s.io", "default", "g")
GROUP = GroupDefinition(KEY, 2, uid="u", generation=3)
TYPE = "PodGroupInitiallyScheduled"
NO = Condition(TYPE, "False", "Unschedulable", "no room")
YES = Condition(TYPE, "True", "Scheduled", "")


class Patches:
    """Fails so often, then takes everything."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.sent: list[tuple[str, str, str, str | None]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def patch_condition(
        self, collection: str, namespace: str, name: str, uid: str, condition: Condition, since: str | None
    ) -> None:
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise NotSentError("away")
        self.sent.append((f"{collection}/{namespace}/{name}", uid, condition.status, since))


async def turns(clock: VirtualClock, seconds: float = 0.0) -> None:
    for _ in range(20):
        await asyncio.sleep(0)
    if seconds:
        await clock.advance(seconds)
        await turns(clock)


async def test_a_condition_is_sent_and_after_a_failure_again() -> None:
    clock, patches = VirtualClock(), Patches(failures=2)
    writer = GroupStatusWriter(patches, clock)
    writer.report_group(GROUP, NO)
    for _ in range(5):
        await turns(clock, 1.0)
    assert patches.sent == [("scheduling.k8s.io/v1beta1/podgroups/default/g", "u", "False", None)]


async def test_only_the_newest_of_what_is_not_sent_yet_is_sent() -> None:
    clock, patches = VirtualClock(), Patches()
    patches.gate.clear()
    writer = GroupStatusWriter(patches, clock)
    writer.report_group(GROUP, NO)
    await turns(clock)
    for _ in range(3):
        writer.report_group(GROUP, NO)
    writer.report_group(GROUP, YES)
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
