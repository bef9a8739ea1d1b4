"""The form where a browser's user types a token, on the port that has a login (see `server.browser_login`)."""

from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from kscheduler.server import browser_login
from kscheduler.server.browser_login import COOKIE, LONGEST_TOKEN, UI, TokenAuthorizer
from kscheduler.server.status_page.rendering import Templates, html_page, see_other
from kscheduler.telemetry.logs import get_logger

_log = get_logger("server")
_FORM: Final = "application/x-www-form-urlencoded"


class LoginForm:
    """The form, and the way out."""

    def __init__(self, judge: TokenAuthorizer, templates: Templates) -> None:
        self._judge = judge
        self._templates = templates

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add the paths."""
        router.add_get(browser_login.LOGIN, self._show)
        router.add_post(browser_login.LOGIN, self._log_in)
        router.add_post(browser_login.LOGOUT, self._log_out)

    async def _show(self, request: web.Request) -> web.Response:
        return await self._page(request.query.get("next", ""))

    async def _page(self, wanted: str, problem: str = "") -> web.Response:
        await self._templates.load()
        body = self._templates.page("login.html", next=browser_login.local_path(wanted), problem=problem)
        return html_page(body, 401 if problem else 200)

    async def _log_in(self, request: web.Request) -> web.Response:
        """Check the token, and hand it back as a cookie."""
        if not browser_login.comes_from_here(request):
            raise web.HTTPForbidden(text="403: Forbidden: the form was sent from another site")
        if request.content_type != _FORM:
            raise web.HTTPUnsupportedMediaType(text=f"415: the body is {_FORM}, as the form sends it")
        # Not `request.post()`: nobody has logged in yet, and it raises at a bad part or an unknown charset.
        fields = dict(parse_qsl((await request.read()).decode(errors="replace")))
        token, wanted = fields.get("token", "").strip(), fields.get("next", "")
        if len(token) > LONGEST_TOKEN:
            return await self._page(wanted, f"Browsers keep tokens of up to {LONGEST_TOKEN} characters as a cookie.")
        if not browser_login.is_token(token):
            return await self._page(wanted, "That is no token: it has other characters, or none.")
        problem = await self._judge.refusal_of_token(token, f"{UI}/")
        if problem is not None:
            return await self._page(wanted, problem)
        answer = see_other(browser_login.local_path(wanted))
        answer.set_cookie(COOKIE, token, path=UI, secure=True, httponly=True, samesite="Strict")
        return answer

    async def _log_out(self, request: web.Request) -> web.Response:
        if not browser_login.comes_from_here(request):
            raise web.HTTPForbidden(text="403: Forbidden: the form was sent from another site")
        answer = see_other(browser_login.LOGIN)
        answer.del_cookie(COOKIE, path=UI, secure=True, httponly=True, samesite="Strict")
        return answer
