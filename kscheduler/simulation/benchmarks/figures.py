"""What comes out of a scenario."""

from collections.abc import Iterable
from typing import Final

import msgspec


class Figures(msgspec.Struct, frozen=True):
    """One scenario, played once."""

    scenario: str
    nodes: int
    pods: int
    """Measured ones."""
    bound: int
    """How many of them got a node: these are the decisions."""
    rejected: int
    """Attempts of the measured phase that ended without a node, whosever they were."""
    decisions_per_second: float
    """Measured pods bound per second of the whole phase: arrival, queue, decision, binding's book-keeping, watch."""
    goal: int
    """What is promised at the scenario's own size; 0 is no promise."""
    cpu_us_per_decision: float
    """CPU of the process in the phase, all in, per measured pod bound."""
    p50_us: float
    """Of an attempt: from the pop to the reservation."""
    p99_us: float
    rss_mib: float
    scored_nodes_per_decision: float
    seconds: dict[str, float]
    """Where the phase went: arriving, deciding, binding, watching, all (the rest is the loop and churn)."""

    @property
    def is_complete(self) -> bool:
        """Whether every measured pod got a node."""
        return self.bound == self.pods


_WIDTH: Final = 54
HEADER: Final = (
    f"{'scenario':<{_WIDTH}}{'nodes':>8}{'pods':>8}{'bound':>8}{'rejected':>10}{'decisions/s':>13}{'goal':>8}"
    f"{'CPU us':>9}{'p50 us':>9}{'p99 us':>9}{'RSS MiB':>9}{'scored':>8}"
)


def row(one: Figures) -> str:
    """A line under `HEADER`."""
    goal = f"{one.goal:,}" if one.goal else ""
    return (
        f"{one.scenario:<{_WIDTH}}{one.nodes:>8,}{one.pods:>8,}{one.bound:>8,}{one.rejected:>10,}"
        f"{one.decisions_per_second:>13,.0f}{goal:>8}{one.cpu_us_per_decision:>9,.0f}{one.p50_us:>9,.0f}"
        f"{one.p99_us:>9,.0f}{one.rss_mib:>9,.0f}{one.scored_nodes_per_decision:>8,.0f}"
    )


def as_json(figures: Iterable[Figures]) -> str:
    """An array of all."""
    return msgspec.json.format(msgspec.json.encode(list(figures)), indent=2).decode()
