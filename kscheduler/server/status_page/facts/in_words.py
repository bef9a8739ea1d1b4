"""Times and amounts as people read them."""

from datetime import UTC, datetime
from typing import Final

from kscheduler.framework.reasons.wording import amount_text

__all__ = ["age_text", "amount_text", "seconds_of", "share_text", "short_seconds"]

_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))


def age_text(seconds: float) -> str:
    """Two units at most: `3s`, `2m 5s`, `4h 10m`, `12d 3h`. Times to come count as now."""
    left = max(int(seconds), 0)
    parts: list[str] = []
    for unit, length in _UNITS:
        if left >= length or parts:
            parts.append(f"{left // length}{unit}")
            left %= length
    parts.append(f"{left}s")
    shown = [part for part in parts[:2] if part[0] != "0" or len(part) > 2 or len(parts) == 1]
    return " ".join(shown) or "0s"


def seconds_of(timestamp: str | None) -> float | None:
    """An RFC 3339 time as wall-clock seconds; `None` if there is none, or it cannot be read."""
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def short_seconds(seconds: float) -> str:
    """A duration with three digits: `12.3 us`, `4.56 ms`, `1.23 s`."""
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        value = seconds * factor
        if value < 999.5:
            return f"{value:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else age_text(seconds)


def share_text(share: float) -> str:
    """A share as per cent: `0 %`, `3.4 %`, `87 %`. Cut, as `kubectl kscheduler nodes` does it: 100 is all."""
    thousandths = int(share * 1000 + 1e-6)  # not 57 for 0.58, of which floats make 0.5799...
    return f"{thousandths / 10:.1f} %" if 0 < thousandths < 100 else f"{thousandths // 10} %"
