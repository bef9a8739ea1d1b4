"""The query of a request: a parameter that a page does not know is refused by its name, not ignored."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import web

from kscheduler.server.login.refusals import status_answer

# Which clients of API servers add by themselves; without effect here.
_EVERYWHERE: Final = ("pretty", "timeout")
# Yes and no.
WORDS: Final[Mapping[str, bool]] = {"true": True, "false": False, "1": True, "0": False}


def unknown_parameter(request: web.Request, known: Sequence[str] = ()) -> web.Response | None:
    """The refusal, if the request has a parameter that is not known, or one twice: only one of them would count."""
    names = Counter(name for name, _ in request.query.items())
    twice = next((name for name, times in names.items() if times > 1), None)
    if twice is not None:
        return status_answer(request, 400, f"{twice} is given {names[twice]} times: once is enough")
    unknown = next((name for name in request.query if name not in known and name not in _EVERYWHERE), None)
    if unknown is None:
        return None
    some = f"there {'is' if len(known) == 1 else 'are'} {', '.join(known)}" if known else "there are none here"
    return status_answer(request, 400, f"unknown parameter {unknown}: {some}")
