"""The result of a search as text."""

from collections.abc import Iterator
from typing import Final

from kscheduler.sweep.search import SearchResult
from kscheduler.text import aligned, printable

# Below this confidence another finalist is as likely the best.
_MIN_CONFIDENCE: Final = 0.5


def search_lines(found: SearchResult) -> Iterator[str]:
    """A line for each fact."""
    weights = ", ".join(f"{plugin} {weight}" for plugin, weight in found.weights.items())
    yield f"{found.goal}: {printable(weights)} of {printable(found.policy)}"
    yield f"  {_confidence_text(found)}"
    yield f"  {_improvement_text(found)}"
    yield ""
    for number, each in enumerate(found.rounds, 1):
        yield f"round {number}: {each.candidates} candidates, {each.seeds} seeds each, {len(each.kept)} stay"
    yield f"once more with unseen seeds, {found.samples} pairs of workload and seed; loss of the mean of all:"
    rows = [
        (f"  {printable(each.policy)}{' (as it is)' if each.is_base else ''}", f"{each.loss:.3f}")
        for each in found.finalists
    ]
    yield from aligned(rows, {1})
    for text in found.failed:
        yield f"dropped: {printable(text)}"


def _confidence_text(found: SearchResult) -> str:
    if found.confidence is None:
        return "confidence unknown: each workload ran only once, as recordings do"
    others = len(found.finalists) - 2
    if not others:
        return "it was the only finalist"
    text = f"best of the {others + 1} finalists in {found.confidence:.0%} of 1,000 draws of the unseen runs"
    return text if found.confidence >= _MIN_CONFIDENCE else f"UNCERTAIN: {text}; more seeds could tell"


def _improvement_text(found: SearchResult) -> str:
    is_better, low, high = found.improvement > 0, found.improvement_low, found.improvement_high
    text = f"{abs(found.improvement):.1%} {'less' if is_better else 'more'} loss than with the weights as they are"
    if found.improvement == 0:
        text = "as much loss as with the weights as they are"
    if low is not None and high is not None and (low, high) != (0, 0):
        chance = "; that may be chance" if low <= 0 <= high else ""
        if found.improvement < 0:  # of more loss, as the figure before it
            low, high = -high, -low
        less = " less" if found.improvement == 0 else ""
        text += f" (95 % of the draws: {_percent(low)} to {_percent(high)}{less}{chance})"
    return text if is_better else f"{text}: keep the weights as they are"


def _percent(share: float) -> str:
    text = f"{share:.1%}"
    return "0.0%" if text == "-0.0%" else text
