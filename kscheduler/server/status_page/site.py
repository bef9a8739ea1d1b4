"""The paths of the status page.

    /ui/                              overview; ?by=use|cpu|memory|pods|RESOURCE, ?still=1 does not reload
    /ui/pending                       all reasons of pending pods
    /ui/pods/NAMESPACE/NAME           one pod; ?part=now is the part that changes
    /ui/nodes, /ui/nodes/NAME         nodes as a list (?zone=, ?sort=, ?page=), and one node
    /ui/search?q=                     by a part of a name; a whole name leads to its page
    /ui/events                        the overview's changes, as server-sent events
    /ui/nodes.json                    the names of the cells of the heat map
    /ui/assets/FILE                   style, script, icon
    /ui/login, /ui/logout             where the port has a login

A pod's and a node's page are sent in two parts: what is known at once, and what a copy of the process decides.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import hdrs, web

from kscheduler.aio.tasks import BackgroundService
from kscheduler.answers.scarce_resources import scarcest
from kscheduler.server.browser_login import EVENTS, UI, TokenAuthorizer
from kscheduler.server.status_page import rendering
from kscheduler.server.status_page.facts.finding import SORTED_BY, find, listed
from kscheduler.server.status_page.facts.node_story import node_story
from kscheduler.server.status_page.facts.not_served import NotServed, not_served
from kscheduler.server.status_page.facts.overview import Pending
from kscheduler.server.status_page.facts.pod_story import pod_story
from kscheduler.server.status_page.facts.shown_explanation import shown_explanation
from kscheduler.server.status_page.live_view import NAMED_PODS, LiveView
from kscheduler.server.status_page.login_form import LoginForm
from kscheduler.server.status_page.rendering import HEADERS, HTML, Templates, html_page, node_url, pod_url, see_other
from kscheduler.server.status_page.shared_responses import MAX_AT_ONCE, ReasonChanges, SharedResponses, ShownReason
from kscheduler.server.status_page.sources import NodeVerdict, PageSources, Unavailable

if TYPE_CHECKING:  # read with the first answer, not at the start
    from kscheduler.explain.answer import PodExplanation
    from kscheduler.explain.group_answer import PodGroupExplanation

# Where no scripts run, pages that change load themselves again.
RELOAD_SECONDS: Final = 10
_END: Final = b"</section>\n</main>"
_COLUMNS: Final = ("Node", "CPU requested", "Memory requested", "Pods")
_UNSEEN: Final = "It was never seen, or is gone."
_NO_ANSWERS: Final = Unavailable("Queries are disabled here (--answer-questions=false).")

View = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StatusPage:
    """The page over the sources; `services` must run for it to be alive."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._templates = Templates(sources.clock.time)
        self._changes = ReasonChanges(sources.answers, sources.clock)
        self.view = LiveView(sources, self._templates, self._changes, sources.clock.time)
        self._explanations: SharedResponses[PodExplanation | PodGroupExplanation] = SharedResponses(sources.clock)
        self._not_served: SharedResponses[tuple[NotServed, ...]] = SharedResponses(sources.clock)
        self._verdicts: SharedResponses[list[NodeVerdict]] = SharedResponses(sources.clock)

    def services(self) -> tuple[BackgroundService, ...]:
        """What keeps it alive."""
        return (
            BackgroundService("status page", self.view.run),
            BackgroundService("status page's suggestions", self._changes.run),
        )

    def add_to(self, app: web.Application, judge: TokenAuthorizer | None) -> None:
        """Add the paths to a server. `judge`: of the port's login, if it has one."""
        views: dict[str, Callable[..., Awaitable[web.StreamResponse]]] = {
            f"{UI}/": self._overview,
            f"{UI}/pending": self._pending,
            f"{UI}/search": self._search,
            f"{UI}/nodes": self._nodes,
            f"{UI}/nodes.json": self._node_names,
            f"{UI}/nodes/{{name:[^/]+}}": self._node,
            f"{UI}/pods/{{namespace:[^/]+}}/{{name:[^/]+}}": self._pod,
        }
        router = app.router
        for path, view in views.items():
            router.add_get(path, partial(self._loaded, partial(view, has_login=judge is not None)))
        router.add_get(UI, _to_overview)
        router.add_get(EVENTS, self._events)
        router.add_get(f"{UI}/assets/{{name}}", _asset)
        if judge is not None:
            LoginForm(judge, self._templates).add_to(router)
        app.on_shutdown.append(self._close)

    async def _close(self, _app: web.Application) -> None:
        self.view.close()

    async def _loaded(self, view: View, request: web.Request) -> web.StreamResponse:
        await self._templates.load(overview_only=request.path == f"{UI}/")
        return await view(request)

    def _page(self, name: str, request: web.Request, *, has_login: bool, **values: Any) -> bytes:
        refresh = values.pop("refresh", 0)
        is_still = bool(refresh) and "still" in request.query
        common = {
            "here": "",
            "query": "",
            "has_login": has_login,
            "refresh": 0 if is_still else refresh,
            "is_still": is_still,
            "has_read": self._sources.standing().has_read,
        }
        return self._templates.page(name, **{**common, **values})

    # --- views --------------------------------------------------------------------------------------------------------

    async def _overview(self, request: web.Request, *, has_login: bool) -> web.StreamResponse:
        snapshot = await self.view.fresh()
        choices = snapshot.choices
        by = request.query.get("by", "use")
        by = by if by in choices else "use"
        sections = {name: _markup(html) for name, html in self.view.shown(snapshot, by).items()}
        values = {"by": by, "by_text": choices[by], "choices": choices, "snapshot_id": self.view.id_of(snapshot)}
        body = self._page(
            "overview.html",
            request,
            has_login=has_login,
            here="overview",
            refresh=RELOAD_SECONDS,
            sections=sections,
            **values,
        )
        return html_page(body)

    async def _pending(self, request: web.Request, *, has_login: bool) -> web.StreamResponse:
        pending = await self._sources.pending(self._sources.queue.waiting_keys())
        first = [*self._changes.beside(pending.reasons[:MAX_AT_ONCE])]
        others = map(ShownReason, pending.reasons[MAX_AT_ONCE:])
        facts = Pending(pending.count, (*first, *others), 0, pending.by_plugin)
        table = self._templates.render("sections/pending.html", facts=facts, most_named=3 * NAMED_PODS)
        values = {
            "count": pending.count,
            "table": _markup(table),
            "left_off": pending.reasons_left_off,
            "others": await self._not_served.answer("all", lambda: not_served(self._sources)),
        }
        body = self._page(
            "pending.html", request, has_login=has_login, here="pending", refresh=RELOAD_SECONDS, **values
        )
        return html_page(body)

    async def _search(self, request: web.Request, *, has_login: bool) -> web.StreamResponse:
        text = request.query.get("q", "").strip()[:253]
        if not text:
            return see_other(f"{UI}/")
        if self._sources.pods.get(text) is not None:
            return see_other(pod_url(text))
        if self._sources.cache.node_info(text) is not None:
            return see_other(node_url(text))
        found = await find(self._sources, text)
        if not found.nodes and len(found.pods) == 1:
            return see_other(pod_url(found.pods[0].key))
        if not found.pods and len(found.nodes) == 1:
            return see_other(node_url(found.nodes[0]))
        return html_page(self._page("search.html", request, has_login=has_login, query=text, found=found))

    async def _nodes(self, request: web.Request, *, has_login: bool) -> web.StreamResponse:
        await self.view.follow_devices()
        cells = self.view.heat.cells()
        zones = [(zone.name, zone.count) for zone in cells.zones if not zone.is_rest]
        zone = request.query.get("zone")
        zone = zone if zone in {name for name, _ in zones} else None
        sorted_by = request.query.get("sort", "name")
        scarce = list(scarcest(self.view.heat.scarce()))
        if sorted_by not in (*SORTED_BY, *(each.name for each in scarce)):
            found = self.view.heat.find(sorted_by)
            sorted_by = "name" if found is None else sorted_by
            scarce += [] if found is None else [found]
        extended = [each.name for each in scarce]
        page = request.query.get("page", "1")
        number = int(page) if page.isascii() and page.isdecimal() and len(page) < 9 else 1
        values = {
            "zone": zone,
            "zones": zones,
            "sorted_by": sorted_by,
            "of_zone": "" if zone is None else _markup(f"zone={quote(zone, safe='')}&amp;"),
            "columns": [*zip(SORTED_BY, _COLUMNS, strict=True), *((each.name, each.words) for each in scarce)],
            "list": listed(self._sources, self.view.heat, zone, sorted_by, number, extended),
        }
        return html_page(self._page("nodes.html", request, has_login=has_login, here="nodes", **values))

    async def _node_names(self, _request: web.Request, *, has_login: bool) -> web.StreamResponse:
        del has_login
        cells = self.view.heat.cells()
        body = msgspec.json.encode({"cells": cells.version, "names": cells.names})
        return web.Response(body=body, content_type="application/json", headers=HEADERS)

    # --- stories ------------------------------------------------------------------------------------------------------

    async def _pod(self, request: web.Request, *, has_login: bool) -> web.StreamResponse:
        key = f"{request.match_info['namespace']}/{request.match_info['name']}"
        pod = self._sources.pods.get(key)
        if pod is None:
            return self._missing(request, f"No pod {key}", _UNSEEN, has_login=has_login)
        story = pod_story(self._sources, pod)
        if request.query.get("part") == "now":
            return html_page(self._templates.render("pod_now.html", story=story).encode())
        head = self._page("pod.html", request, has_login=has_login, story=story, refresh=3 * RELOAD_SECONDS)

        async def decided() -> str:
            answers = self._sources.answers
            query = key, pod.metadata.uid, pod.metadata.resource_version
            found: PodExplanation | PodGroupExplanation | Unavailable = _NO_ANSWERS
            if answers is not None:
                found = await self._explanations.answer(query, lambda: answers.explain(pod))
            refusal = found.reason if isinstance(found, Unavailable) else ""
            shown = None if isinstance(found, Unavailable) else shown_explanation(found, pod.metadata.name)
            reported = story.condition[1] if story.condition is not None and not pod.spec.node_name else ""
            return self._templates.render("pod_answer.html", refusal=refusal, answer=shown, reported=reported)

        return await self._in_two_parts(request, head, decided)

    async def _node(self, request: web.Request, *, has_login: bool) -> web.StreamResponse:
        name = request.match_info["name"]
        story = node_story(self._sources, name)
        if story is None:
            return self._missing(request, f"No node {name}", _UNSEEN, has_login=has_login)
        if request.query.get("part") == "now":
            return html_page(self._templates.render("node_now.html", story=story).encode())
        head = self._page("node.html", request, has_login=has_login, story=story, refresh=3 * RELOAD_SECONDS)

        async def decided() -> str:
            refusal, verdicts = await self._rejected_pods(name)
            return self._templates.render("node_answer.html", refusal=refusal, verdicts=verdicts)

        return await self._in_two_parts(request, head, decided)

    async def _rejected_pods(self, name: str) -> tuple[str, list[tuple[NodeVerdict, int]]]:
        """The verdicts on one node about the oldest pod of each reason, with the number of pods of that reason."""
        answers = self._sources.answers
        if answers is None:
            return _NO_ANSWERS.reason, []
        pending = await self._sources.pending(self._sources.queue.waiting_keys())
        like = {reason.pods[0].key: reason.count for reason in pending.reasons[:MAX_AT_ONCE] if reason.pods}
        if not like:
            return "", []
        found = await self._verdicts.answer((name, *like), lambda: answers.verdicts_on(name, list(like)))
        if isinstance(found, Unavailable):
            return found.reason, []
        return "", [(verdict, like.get(verdict.key, 1)) for verdict in found]

    async def _in_two_parts(
        self, request: web.Request, page: bytes, rest: Callable[[], Awaitable[str]]
    ) -> web.StreamResponse:
        """Send a page up to the end of its last section, then what takes longer, then its end."""
        head, end, tail = page.rpartition(b"</main>")
        response = web.StreamResponse(headers={**HEADERS, hdrs.CONTENT_TYPE: f"{HTML}; charset=utf-8"})
        await response.prepare(request)
        await response.write(head)
        await response.write((await rest()).encode() + b"</section>\n" + end + tail)
        return response

    def _missing(self, request: web.Request, heading: str, text: str, *, has_login: bool) -> web.Response:
        body = self._page("message.html", request, has_login=has_login, heading=heading, text=text)
        return html_page(body, 404)

    # --- streams ------------------------------------------------------------------------------------------------------

    async def _events(self, request: web.Request) -> web.StreamResponse:
        by = request.query.get("by", "use")
        if by not in (choices := self.view.heat.choices()):
            raise web.HTTPBadRequest(text=f"400: by must be one of {', '.join(choices)}")
        if not self.view.has_room:
            return web.Response(status=429, text="429: too many browsers follow already", headers={"Retry-After": "10"})
        seen = request.headers.get("Last-Event-ID") or request.query.get("version", "")
        response = web.StreamResponse(headers={**HEADERS, hdrs.CONTENT_TYPE: "text/event-stream"})
        await response.prepare(request)
        async with aclosing(self.view.follow(by, seen)) as messages:
            async for message in messages:
                await response.write(message)
        return response


async def _to_overview(_request: web.Request) -> web.Response:
    return see_other(f"{UI}/")


async def _asset(request: web.Request) -> web.Response:
    name = request.match_info["name"]
    if name not in rendering.ASSETS:
        raise web.HTTPNotFound
    kept = "public, max-age=31536000, immutable" if request.query_string == rendering.assets_version() else "no-cache"
    headers = {**HEADERS, hdrs.CACHE_CONTROL: kept}
    return web.Response(body=rendering.assets()[name], content_type=rendering.ASSETS[name], headers=headers)


def _markup(html: str) -> Any:
    """HTML of our own templates, which is not escaped again."""
    from markupsafe import Markup

    return Markup(html)  # noqa: S704  rendered by a template that escapes


__all__ = ["StatusPage"]
