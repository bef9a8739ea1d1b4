"""What plugins keep from one member of a pod group to the next, while the group is tried."""

from dataclasses import dataclass, field

from kscheduler.framework.cycle_state import CycleState


@dataclass(slots=True)
class CycleOfGroup:
    """One trial of a group: all of its members have this value in their `CycleState`.

    The next trial of the same group, in another placement or at another time, has another one.
    """

    state: CycleState = field(default_factory=CycleState)
    """Values that are all members', by type."""
