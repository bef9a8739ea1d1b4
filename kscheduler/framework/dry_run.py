"""The filters of a cycle that found no node, for PostFilter plugins: run over rows as they might be.

The cycle leaves a `DryRun` in the CycleState before PostFilter; `cycle.read(DryRun)` finds it.
"""

from collections.abc import Callable, Hashable

import msgspec

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.nodes.change_log import ChangeLog
from kscheduler.framework.nodes.moved_pods import MovedPods
from kscheduler.framework.nodes.node_table import NodeTable, Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.diagnosis import Rejection
from kscheduler.framework.status import Status


class Passing(msgspec.Struct, frozen=True):
    """The filters' result for some rows."""

    rows: Rows
    """The rows that pass, ascending; empty after an error."""
    rejections: tuple[Rejection, ...] = ()
    """The rejected rows, each in exactly one rejection."""
    error: Status | None = None
    """A plugin has failed: there is no result for any of the rows."""


class DryRun(msgspec.Struct, frozen=True):
    """The filters of one cycle."""

    passing: Callable[[NodeTable, CycleState, Rows], Passing]
    """The rows of a fork that the pod fits on both with the pods nominated to them and without."""
    still_passing: Callable[[NodeTable, CycleState, Rows], Passing]
    """The same for rows that have passed and of which only the *pods* changed: skips filters that read no pods."""
    add_pod: Callable[[CycleState, PodInfo, NodeTable, int], Status]
    """Count a pod on a row in the state (`PreFilterExtensions`); Success or an Error."""
    remove_pod: Callable[[CycleState, PodInfo, NodeTable, int], Status]
    """Stop counting a pod on a row."""
    counts_pods: bool
    """Whether any plugin keeps such counts for this pod."""
    move_pods: Callable[[CycleState, MovedPods, NodeTable], Status] | None
    """Stop counting pods of many rows, or count them again, so that one state serves all of these rows; Success or an
    Error. `None` if a plugin cannot do that: then each row needs a state of its own.
    """
    row_class: Callable[[], Hashable | None]
    """Equal for pods to which the filters give the same results about a row, with any pods on it, as long as its node
    does not change. `None` if a filter reads anything else, or more of the pod than it signs."""
    expected_changes: ChangeLog
    """Rows where nominations have begun or ended: the pods expected there, of any priority, may have changed."""
