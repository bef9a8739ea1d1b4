"""Which form of a z-page a client asks for.

As upstream: text by default and for `text/plain`; a structured object for
`application/json;v=v1beta1;g=config.k8s.io;as=Statusz` (or `application/yaml`, or `v=v1alpha1`, which is deprecated);
406 for everything else, since plain `application/json` would promise a format without a version.
"""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from kscheduler.server.login.refusals import status_answer

GROUP: Final = "config.k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha1")
DEPRECATED: Final = frozenset({"v1alpha1"})
_JSON, _YAML, _TEXT = "application/json", "application/yaml", "text/plain"


@dataclass(frozen=True, slots=True)
class Form:
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


def answer(request: web.Request, kind: str, text: str, fields: dict[str, Any], component: str) -> web.Response:
    """The page in the form that the client asks for."""
    form = form_for(",".join(request.headers.getall(hdrs.ACCEPT, [])), kind)
    if form is None:
        accepted = ", ".join(f"{media};v={VERSIONS[0]};g={GROUP};as={kind}" for media in (_JSON, _YAML))
        message = f"only the following media types are accepted: {_TEXT}, {accepted}"
        return status_answer(request, 406, message)
    if not form.version:
        return web.Response(text=text, content_type=_TEXT)
    head = {"kind": kind, "apiVersion": f"{GROUP}/{form.version}", "metadata": {"name": component}}
    tree = {**head, **fields}
    body = msgspec.yaml.encode(tree) if form.media_type == _YAML else msgspec.json.encode(tree)
    response = web.Response(body=body, content_type=form.media_type)
    if form.version in DEPRECATED:
        page = kind.lower()
        response.headers["Warning"] = (
            f'299 - "This version of the {page} endpoint is deprecated. Please use a newer version."'
        )
    return response
