"""What a search has found, in words."""

from collections.abc import Iterator
from typing import Final

from kscheduler.sweep.search import SearchResult
from kscheduler.text import aligned, printable

# A share of draws below which another finalist may as well be the best.
_NOT_SURE: Final = 0.5


def search_lines(found: SearchResult) -> Iterator[str]:
    """A line for each fact."""
    weights = ", ".join(f"{plugin} {weight}" for plugin, weight in found.weights.items())
    yield f"{found.goal}: {printable(weights)} of {printable(found.policy)}"
    yield f"  {_sure(found)}"
    yield f"  {_gain(found)}"
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


def _sure(found: SearchResult) -> str:
    if found.sure is None:
        return "how sure that is cannot be said: each workload was played once, as recordings are"
    others = len(found.finalists) - 2
    if not others:
        return "it was the only finalist"
    text = f"best of the {others + 1} finalists in {found.sure:.0%} of 1,000 draws of the unseen runs"
    return text if found.sure >= _NOT_SURE else f"NOT SURE: {text}; more seeds could tell"


def _gain(found: SearchResult) -> str:
    words = f"{abs(found.gain):.1%} {'less' if found.gain >= 0 else 'more'} loss than with the weights as they are"
    if found.gain_low is None or found.gain_high is None:
        return words
    is_open = found.gain_low <= 0 <= found.gain_high
    chance = "; that may be chance" if is_open else ""
    return f"{words} (95 % of the draws: {found.gain_low:.1%} to {found.gain_high:.1%}{chance})"
