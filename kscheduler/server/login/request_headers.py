"""Front proxies: who shows a certificate of their authority may say in headers for whom it asks.

Without such a certificate the headers mean nothing.
"""

from dataclasses import dataclass
from urllib.parse import unquote

from multidict import CIMultiDict, CIMultiDictProxy

from kscheduler.server.login.client_certificates import AuthorityBundle
from kscheduler.server.login.user import RequestUser

# A request's headers, as aiohttp has them; names in any case.
Headers = CIMultiDictProxy[str] | CIMultiDict[str]


@dataclass(frozen=True, slots=True)
class RequestHeaderRules:
    """Who may speak for others, and in which headers."""

    authority: AuthorityBundle
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    allowed_names: tuple[str, ...] = ()
    """Common names of the proxies' certificates; empty means any."""

    def user_in(self, headers: Headers) -> RequestUser | None:
        """The user that the headers name, if they name one."""
        name = _first(headers, self.username_headers)
        if not name:
            return None
        groups = [value for header in self.group_headers for value in headers.getall(header, []) if value]
        return RequestUser(name, _first(headers, self.uid_headers), tuple(groups), self._extra(headers))

    def _extra(self, headers: Headers) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        names = dict.fromkeys(name.lower() for name in headers)
        for prefix in self.extra_prefixes:
            for name in names:
                if name.startswith(prefix.lower()):
                    found.setdefault(unquote(name[len(prefix) :]), []).extend(headers.getall(name, []))
        return tuple(sorted((key, tuple(values)) for key, values in found.items()))


def _first(headers: Headers, names: tuple[str, ...]) -> str:
    return next((value for value in (headers.get(name, "") for name in names) if value), "")
