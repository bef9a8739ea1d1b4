"""The heat map as SVG: one path per zone and level, so that five thousand nodes are a few dozen elements.

The page's script draws the same paths in browsers that follow (`assets/live.js`): sizes and order must agree.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from kscheduler.server.status_page.facts.heat import LEVELS, Cells, ZoneBlock

# Up to so many nodes a cell takes so many pixels, its gap included; beyond them 3.
_PITCHES: Final = ((400, 22), (1_000, 15), (2_500, 11), (8_000, 8), (30_000, 5))
_SMALLEST_PITCH: Final = 3
# A block is so much wider than high.
_WIDTH_OF_HEIGHT: Final = 2.4
# Blocks whose cells' places are remembered.
_KEPT_PLACES: Final = 256


class DrawnZone(msgspec.Struct, frozen=True):
    """A zone's block, ready for the template."""

    name: str
    is_rest: bool
    count: int
    first: int
    columns: int
    pitch: int
    width: int
    height: int
    paths: tuple[tuple[str, str], ...]
    """Letter and path data, only of letters that occur."""
    full: int
    """Nodes that are more than nine tenths full."""


def pitch_of(nodes: int) -> int:
    """Pixels of a cell with its gap."""
    return next((pitch for most, pitch in _PITCHES if nodes <= most), _SMALLEST_PITCH)


def drawn(cells: Cells, letters: str) -> tuple[DrawnZone, ...]:
    """All blocks. `letters`: of these cells."""
    pitch = pitch_of(len(cells.names))
    return tuple(_block(zone, letters[zone.first : zone.first + zone.count], pitch) for zone in cells.zones)


def _block(zone: ZoneBlock, letters: str, pitch: int) -> DrawnZone:
    columns = max(1, math.ceil(math.sqrt(zone.count * _WIDTH_OF_HEIGHT)))
    places = _places(zone.count, columns, pitch)
    by_letter: dict[str, list[str]] = {}
    for place, letter in zip(places, letters, strict=True):
        by_letter.setdefault(letter, []).append(place)
    return DrawnZone(
        name=zone.name,
        is_rest=zone.is_rest,
        count=zone.count,
        first=zone.first,
        columns=columns,
        pitch=pitch,
        width=columns * pitch,
        height=math.ceil(zone.count / columns) * pitch,
        paths=tuple((letter, "".join(by_letter[letter])) for letter in LEVELS if letter in by_letter),
        full=letters.count("a") + letters.count("o"),
    )


@lru_cache(maxsize=_KEPT_PLACES)
def _places(count: int, columns: int, pitch: int) -> Sequence[str]:
    """A square of path data per cell, row by row."""
    side = pitch - (2 if pitch >= 14 else 1)
    square = f"h{side}v{side}h-{side}z"
    return [f"M{at % columns * pitch} {at // columns * pitch}{square}" for at in range(count)]
