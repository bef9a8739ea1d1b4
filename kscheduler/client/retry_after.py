"""How long a server asks us to wait.

The answer may come from a proxy, a web application firewall or a fault, and `Retry-After: 3600` after an overload of
three seconds would leave a watch closed for an hour. What a server asks for is respected up to half a minute:
kube-apiserver asks for 32 s at most. What is no number of seconds and no HTTP date counts as one second: the server
asks for patience and does not say how much. A date is read against the `Date` of the same answer, so that this
machine's clock does not matter.
"""

import math
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Final

# The longest Retry-After that is respected, for reads and writes alike: workers, nodes' room and watches wait.
LONGEST_RETRY_AFTER_SECONDS: Final = 30.0
UNREADABLE_SECONDS: Final = 1.0
# Characters; a longer header is not read.
_LONGEST_HEADER: Final = 64


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds from 0 to the longest, or `None` without the header. `headers`: names in lower case, or any case."""
    text = headers.get("retry-after")
    if text is None:
        return None
    text = text.strip()
    if len(text) > _LONGEST_HEADER:
        return UNREADABLE_SECONDS if not text.isdecimal() else LONGEST_RETRY_AFTER_SECONDS
    try:
        return bounded(float(text))
    except ValueError:
        until = _moment(text)
    if until is None:
        return UNREADABLE_SECONDS
    answered = _moment(headers.get("date", ""))
    return max(UNREADABLE_SECONDS, bounded(until - (time.time() if answered is None else answered)))


def bounded(seconds: float) -> float:
    """A wait that a server may ask for. What is negative or no number counts as one second."""
    if math.isnan(seconds) or seconds < 0:
        return UNREADABLE_SECONDS
    return min(seconds, LONGEST_RETRY_AFTER_SECONDS)


def _moment(date: str) -> float | None:
    """An HTTP date as seconds of the Unix clock; `None` if it is none."""
    from email.utils import parsedate_to_datetime  # a hundredth of a second at the start, for what is hardly ever sent

    try:
        moment: datetime = parsedate_to_datetime(date)
        return moment.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
