"""What a PostFilter plugin may ask of the cycle that found no node: its filters, over rows as they might be.

The cycle leaves a `DryRun` in the CycleState before PostFilter; `cycle.read(DryRun)` finds it.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import Status


@dataclass(frozen=True, slots=True)
class Passing:
    """What the filters say of some rows."""

    rows: Rows
    """Those that pass, ascending; none after an error."""
    rejections: tuple[Rejection, ...] = ()
    """Every other row, once."""
    error: Status | None = None
    """A plugin has failed: nothing is known of any of the rows."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """The filters of one cycle."""

    passing: Callable[[NodeTable, CycleState, Rows], Passing]
    """Which rows of a fork the pod fits on, beside the pods nominated to them and without those."""
    still_passing: Callable[[NodeTable, CycleState, Rows], Passing]
    """The same for rows that have passed and whose *pods* alone have changed: who reads no pods is not asked again."""
    add_pod: Callable[[CycleState, PodInfo, NodeTable, int], Status]
    """Count a pod on a row in the state (`PreFilterExtensions`); Success or an Error."""
    remove_pod: Callable[[CycleState, PodInfo, NodeTable, int], Status]
    """Count one out."""
    counts_pods: bool
    """Whether some plugin keeps such counts for this pod."""
    move_pods: Callable[[CycleState, MovedPods, NodeTable], Status] | None
    """Count pods of many rows out, or in again, so that one state holds for all of these rows; Success or an Error.

    `None` where a plugin cannot do that: then each row needs a state of its own.
    """
    row_class: Callable[[], Hashable | None]
    """Equal for pods of which the filters say the same of a row, with any pods on it, as long as its node stays as it
    is. `None` where a filter looks at anything else, or reads more of the pod than it signs."""
    expected_changes: ChangeLog
    """Rows where nominations have begun or ended: who is expected there, of whatever priority, may have changed."""
