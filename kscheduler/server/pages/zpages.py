"""What this server is: `/version`, `/statusz` and `/flagz`, as Kubernetes' components have them, and `/openapi.json`.

Of a z-page (gates ComponentStatusz and ComponentFlagz) a client asks for a form, as upstream: text by default and for
`text/plain`; a structured object for `application/json;v=v1beta1;g=config.k8s.io;as=Statusz` (or `application/yaml`, or
`v=v1alpha1`, which is deprecated); 406 for everything else, since plain `application/json` would promise a format
without a version.

What this server answers, as OpenAPI 3.1 describes it, is a file beside this one, which has the paths; the schemas of
the answers are in another, which is made from their structs (`server.pages.published`). A test asks a server for all
its paths and holds each answer against it.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from kscheduler import __version__
from kscheduler.aio.clock import Clock
from kscheduler.answers import Answer, Names
from kscheduler.api.meta import rfc3339
from kscheduler.server.handlers import Handler
from kscheduler.server.login.user import status_answer

GROUP: Final = "config.k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha1")
DEPRECATED: Final = frozenset({"v1alpha1"})
_JSON, _YAML, _TEXT = "application/json", "application/yaml", "text/plain"
COMPONENT: Final = "kscheduler"
_HEAD: Final = (
    f"\n{COMPONENT} %s\n"
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only.\n"
)


class PathIndex(Answer, frozen=True):
    """All paths that answer a GET."""

    paths: Names


class BuildVersion(Answer, frozen=True):
    """With the field names of the API server's /version."""

    major: str
    minor: str
    git_version: str
    python_version: str
    platform: str


def build_version() -> BuildVersion:
    """The answer of `/version`."""
    major, minor = __version__.split(".")[:2]
    return BuildVersion(
        major=major,
        minor=minor,
        git_version=f"v{__version__}",
        python_version=platform.python_version(),
        platform=f"{platform.system().lower()}/{platform.machine()}",
    )


class Form(msgspec.Struct, frozen=True):
    """A form that a client accepts: text if there is no version."""

    media_type: str
    version: str = ""


def form_for(accept: str, kind: str) -> Form | None:
    """The first form that the client accepts and that there is; `None` if there is none."""
    if not accept.strip():
        return Form(_TEXT)
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        given = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if "as" not in given and media_type.lower() in {_TEXT, "text/*", "*/*"}:
            return Form(_TEXT)
        is_structured = given.get("as") == kind and given.get("g") == GROUP and given.get("v") in VERSIONS
        if is_structured and media_type.lower() in {_JSON, _YAML, "application/*"}:
            return Form(_YAML if media_type.lower() == _YAML else _JSON, given["v"])
    return None


def answer(request: web.Request, kind: str, text: str, fields: dict[str, Any]) -> web.Response:
    """The page in the form that the client asks for."""
    form = form_for(",".join(request.headers.getall(hdrs.ACCEPT, [])), kind)
    if form is None:
        accepted = ", ".join(f"{media};v={VERSIONS[0]};g={GROUP};as={kind}" for media in (_JSON, _YAML))
        message = f"only the following media types are accepted: {_TEXT}, {accepted}"
        return status_answer(request, 406, message)
    if not form.version:
        return web.Response(text=text, content_type=_TEXT)
    head = {"kind": kind, "apiVersion": f"{GROUP}/{form.version}", "metadata": {"name": COMPONENT}}
    tree = {**head, **fields}
    body = msgspec.yaml.encode(tree) if form.media_type == _YAML else msgspec.json.encode(tree)
    response = web.Response(body=body, content_type=form.media_type)
    if form.version in DEPRECATED:
        page = kind.lower()
        response.headers["Warning"] = (
            f'299 - "This version of the {page} endpoint is deprecated. Please use a newer version."'
        )
    return response


def statusz(
    version: str,
    kubernetes: Callable[[], str],
    paths: Callable[[], Sequence[str]],
    clock: Clock,
    began: float,
) -> Handler:
    """Since when what runs. `kubernetes`: the minor version whose rules are followed now. `began`: when the process
    did, in monotonic seconds.
    """
    started = clock.time() - (clock.monotonic() - began)

    async def handle(request: web.Request) -> web.StreamResponse:
        seconds = int(clock.monotonic() - began)
        begins = datetime.fromtimestamp(started, UTC)
        folders = _folders(paths())
        lines = [
            "",
            f"Started: {begins.strftime('%a %b %e %H:%M:%S UTC %Y')}",
            f"Up: {seconds // 3600} hr {seconds // 60 % 60:02d} min {seconds % 60:02d} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {version}",
            f"Emulation version: {kubernetes()}",
            f"Paths: {' '.join(folders)}",
        ]
        fields: dict[str, Any] = {
            "startTime": rfc3339(started),
            "uptimeSeconds": seconds,
            "binaryVersion": version,
            "emulationVersion": kubernetes(),
            "paths": folders,
        }
        return answer(request, "Statusz", _HEAD % "statusz" + "\n".join(lines) + "\n", fields)

    return handle


def _folders(paths: Sequence[str]) -> list[str]:
    """The first part of each path, once."""
    return sorted({f"/{first}" for first in (path.split("/")[1] for path in paths if "/" in path) if first})


def flagz(flags: Mapping[str, str]) -> Handler:
    """All flags with the values in force. No flag holds a secret: tokens and keys are files, whose names are shown."""
    text = "".join(f"{name}={value}\n" for name, value in sorted(flags.items()))

    async def handle(request: web.Request) -> web.StreamResponse:
        return answer(request, "Flagz", _HEAD % "flagz" + text, {"flags": dict(flags)})

    return handle


def description() -> dict[str, Any]:
    """Of all paths (OpenAPI 3.1), with this version's number."""
    folder = resources.files("kscheduler.server.pages")
    tree: dict[str, Any] = msgspec.json.decode(folder.joinpath("openapi.json").read_bytes())
    tree["info"]["version"] = __version__
    tree["components"]["schemas"] |= msgspec.json.decode(folder.joinpath("answers.openapi.json").read_bytes())
    return tree


def openapi_page() -> Handler:
    """The description as JSON, read when it is first asked for."""

    @cache
    def body() -> bytes:
        return msgspec.json.encode(description())

    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=body(), content_type="application/json")

    return handle
