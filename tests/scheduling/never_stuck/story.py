"""What a story of an event is, and the words that all of them share."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.scheduling.never_stuck.machine import NeverStuck

P = "default/p0"
OTHER = "default/o0"
Step = Callable[[NeverStuck], None]


@dataclass(frozen=True, slots=True)
class Story:
    """The pod `p0` is parked, and something happens."""

    plugin: str
    event: str
    """As it is counted."""
    before: tuple[Step, ...]
    apply_external: Step
    besides: frozenset[str] = frozenset()
    """Who else has rejected the pod."""
    is_gated: bool = False
    """The pod waits before the queue: nobody tries it before the event."""

    def __str__(self) -> str:
        return f"{self.plugin} {self.event}"


def node(name: str, *traits: str) -> Step:
    """A node comes."""
    return lambda state: state.node_comes(name=name, traits=[*traits])


def turns(name: str, trait: str) -> Step:
    """A node gets a trait, or loses it."""
    return lambda state: state.node_gets_or_loses(name=name, trait=trait)


def pod(*traits: str, app: str = "") -> Step:
    """The pod comes."""
    return lambda state: state.pod_comes(described=("p0", "default", app, [*traits], ""))
