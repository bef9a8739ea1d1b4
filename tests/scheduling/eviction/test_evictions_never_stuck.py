"""However answers, watch events and other people's deletions fall, the preemptor looks again once its room is there."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.state.waiting_pods import PodAtPermit
from tests.scheduling.eviction.stage import FORBIDDEN, Stage, turns

Step = Callable[[], None]


@dataclass
class Story:
    """One preemption, and what happens around it: the preemptor looks at each event that frees room, if it may."""

    stage: Stage
    freed_at: int = 0
    """The last moment at which room was freed."""
    looked_at: int = -1
    """The last moment at which the preemptor was tried, or was to be."""
    moment: int = 0
    later: list[Step] = field(default_factory=list)

    def look(self) -> None:
        self.looked_at = self.moment

    def room_is_freed(self) -> None:
        """The event reaches the queue, which asks PreEnqueue."""
        self.freed_at = self.moment
        if not self.stage.must_wait():
            self.look()

    def give_back(self, pod: PodInfo) -> None:
        """The attempt of a pod that was stopped in memory has ended."""
        self.stage.gives_back(pod)
        self.room_is_freed()

    def show_gone(self, name: str) -> None:
        """The watch tells of a pod's deletion."""
        if self.stage.store.pop(f"default/{name}", None) is not None:
            self.room_is_freed()

    def show_terminating(self, name: str) -> None:
        """The watch tells that a pod has been asked to go; that frees nothing."""
        if f"default/{name}" in self.stage.store:
            self.stage.terminating(name)


def victims(story: Story, kinds: list[str]) -> list[str]:
    """Names by kind: `api` is deleted; `held` waits for Permit and gives its node back some time after its verdict."""
    names = []
    for number, kind in enumerate(kinds):
        name = f"{kind}{number}"
        if kind == "held":
            held = PodAtPermit(story.stage.pod(name, node=""), "n", {"P": 1e9}, {"P": 1e9})
            story.stage.slow_to_leave.add(held.pod.uid)
            held.on_verdict(lambda pod=held.pod: story.later.append(lambda: story.give_back(pod)))  # type: ignore[misc]
            story.stage.waiting.hold(held)
        else:
            story.stage.pod(name)
            story.stage.writes.gates[name] = asyncio.Event()
        names.append(name)
    return names


@given(
    kinds=st.lists(st.sampled_from(["api", "api", "held"]), min_size=1, max_size=5),
    draws=st.lists(st.integers(0, 10**6), min_size=0, max_size=30),
    failing=st.none() | st.integers(0, 4),
    pauses=st.booleans(),
)
async def test_the_preemptor_looks_again_after_its_room_is_there(
    kinds: list[str], draws: list[int], failing: int | None, pauses: bool
) -> None:
    stage = Stage()
    story = Story(stage)
    stage.writes.take_their_time = True
    stage.on_activate = lambda _keys: story.look()
    names = victims(story, kinds)
    if failing is not None and failing < len(names):
        stage.writes.failures[names[failing]] = FORBIDDEN
    chosen = [stage.pod(name, node="" if name.startswith("held") else "n") for name in names]
    stage.evictions.begin(stage.preemption(*chosen))
    for name in stage.writes.gates:
        story.later += [
            stage.writes.gates[name].set,
            lambda name=name: story.show_terminating(name),  # type: ignore[misc]
            lambda name=name: story.show_gone(name),  # type: ignore[misc]
        ]
    draw = iter(draws)
    while story.later or len(stage.evictions):
        if pauses:
            await turns(5)
        if story.later:
            story.moment += 1
            story.later.pop(next(draw, 0) % len(story.later))()
        else:
            await turns()
    await turns()
    assert len(stage.evictions) == 0
    assert story.looked_at >= story.freed_at
