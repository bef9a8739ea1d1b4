"""Templates to HTML, and HTML to an answer with what it says to a browser.

jinja2, and the templates, are read at the first view: a start must not wait for them, and most processes are never
looked at. All of it happens in a thread, since compiling takes a tenth of a second, half of it for pages that the first
view does not need: those of the overview are compiled first, the others when one of them is wanted.
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aiohttp import hdrs, web

from kscheduler import __version__
from kscheduler.answers.suggestions import CommonSuggestion, SuggestionAnswer
from kscheduler.api.meta import rfc3339
from kscheduler.scheduling.pod_log.recent_attempts import BindingAttempt
from kscheduler.server.status_page.facts import in_words
from kscheduler.server.status_page.facts.pod_story import rejected_nodes

if TYPE_CHECKING:
    from jinja2 import Environment

PACKAGE: Final = "kscheduler.server.status_page"
# Files and their types.
ASSETS: Final = {
    "page.css": "text/css",
    "live.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
# Characters of a value: a stranger's message does not make a page of megabytes.
LONGEST_TEXT: Final = 16_000
# Pods whose names a suggestion's text has (`explain.suggestions.kinds.pods_that_go`).
MAX_IN_TEXT: Final = 5
# Nothing from elsewhere, nothing inline: a name that were not escaped would still run nothing and load nothing.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    hdrs.CACHE_CONTROL: "no-store",  # pages name pods: no cache on the way or on a disk may keep them
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
HTML: Final = "text/html"
_PLACES: Final = {
    "underWay": "Under way",
    "active": "Ready",
    "backoff": "Backoff",
    "unschedulable": "Unschedulable",
    "gated": "Gated",
    "incomplete": "Incomplete group",
    "pending": "Group under way",
    "Permit": "Waits at Permit",
}
_WHY: Final = {
    "underWay": "is being decided about or bound",
    "active": "not tried yet",
    "backoff": "is tried again soon",
    "gated": "gated",
}


@lru_cache(maxsize=1)
def assets() -> dict[str, bytes]:
    """The files that pages name."""
    folder = resources.files(PACKAGE).joinpath("assets")
    return {name: folder.joinpath(name).read_bytes() for name in ASSETS}


@lru_cache(maxsize=1)
def assets_version() -> str:
    """Changes with the files: browsers may keep them forever under an address with it."""
    digest = hashlib.sha256(b"".join(assets().values()))
    return digest.hexdigest()[:12]


def pod_url(key: str) -> str:
    """The page of a pod, by `namespace/name`."""
    namespace, _, name = key.partition("/")
    return f"/ui/pods/{quote(namespace, safe='')}/{quote(name, safe='')}"


def node_url(name: str) -> str:
    """The page of a node."""
    return f"/ui/nodes/{quote(name, safe='')}"


def cut(text: object, most: int) -> str:
    """The text's beginning."""
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[:most]} … ({len(whole) - most} more characters)"


def sentence(text: str) -> str:
    """With a capital letter; the others stay as they are, those of names too."""
    return text[:1].upper() + text[1:]


def deleted_pods(change: SuggestionAnswer | CommonSuggestion) -> list[str]:
    """Keys of the pods that a change deletes, where its text has only their number; else none."""
    pods = [pod for step in change.steps if step.kind == "deletePods" for pod in step.facts["pods"]]
    keys = [f"{pod['namespace']}/{pod['name']}" for pod in pods]
    return keys if len(keys) > MAX_IN_TEXT else []


def freed(change: SuggestionAnswer | CommonSuggestion, count: int) -> str:
    """How many of a reason's pods a change helps, as `kscheduler pending` says it; nothing of a single pod's."""
    return change.freed(count) if isinstance(change, CommonSuggestion) else ""


class Templates:
    """Renders; `load` must have ended before."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now`: wall-clock seconds."""
        self._now = now
        self._environment: Environment | None = None
        self._is_whole = False
        self._loading = asyncio.Lock()

    async def load(self, *, overview_only: bool = False) -> None:
        """Import and compile, once."""
        async with self._loading:
            if self._environment is None:
                self._environment = await asyncio.to_thread(_environment)
            if not (overview_only or self._is_whole):
                await asyncio.to_thread(_compile, self._environment, self._environment.list_templates())
                self._is_whole = True

    def render(self, name: str, **values: Any) -> str:
        """The HTML of a template. Raises `RuntimeError` before `load`."""
        if self._environment is None:
            message = "templates are not loaded: await load() first"
            raise RuntimeError(message)
        return self._environment.get_template(name).render(now=self._now(), **values)

    def page(self, name: str, **values: Any) -> bytes:
        """A whole page."""
        return self.render(name, assets=assets_version(), version=__version__, **values).encode()


def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
        finalize=_clean,
    )
    environment.filters.update(
        age=in_words.age_text,
        clock=lambda at: datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S"),
        cut=cut,
        deleted_pods=deleted_pods,
        freed=freed,
        is_bound=lambda entry: isinstance(entry, BindingAttempt),
        node_url=node_url,
        number=lambda count: f"{count:,}",
        place=lambda place: _PLACES.get(place, place),
        pod_url=pod_url,
        quoted=lambda text: quote(text, safe=""),
        rejecting=lambda attempt: [plugin or "PreFilter" for plugin, _ in rejected_nodes(attempt)],
        sentence=sentence,
        seconds=in_words.seconds_of,
        share=in_words.share_text,
        short=in_words.short_seconds,
        since=rfc3339,
        why=lambda place: _WHY.get(place, ""),
    )
    sections = [name for name in environment.list_templates() if name.startswith("sections/")]
    _compile(environment, ["base.html", "macros.html", "overview.html", *sections])
    return environment


def _compile(environment: "Environment", names: Iterable[str]) -> None:
    for name in names:
        environment.get_template(name)


def _clean(value: object) -> object:
    """A value without characters that turn text around or control terminals; escaping comes after it."""
    if type(value) is not str:  # Markup is ours
        return value
    text = value if len(value) <= LONGEST_TEXT else cut(value, LONGEST_TEXT)
    if text.isprintable():
        return text
    from kscheduler.text import printable  # not at the start: a service that nobody asks needs none

    return printable(text)


# --- answers -------------------------------------------------------------------------------------------------------


def html_page(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=HTML, charset="utf-8", headers=HEADERS)


def see_other(path: str) -> web.Response:
    """Go there with GET. `path`: of ours."""
    return web.Response(status=303, headers={**HEADERS, hdrs.LOCATION: path})
