"""A small blocking client of a Kubernetes API server, for tests and audits.

It shares no code with kscheduler's own client on purpose: an auditor must not repeat the mistakes of the audited.
Objects are the JSON as it came, in dictionaries. A connection per thread is kept open; a request that finds it closed
is sent once more.
"""

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

Object = dict[str, Any]

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
REQUEST_SECONDS = 30.0


class ApiStatusError(RuntimeError):
    """The API server answered with an error status."""

    def __init__(self, method: str, path: str, code: int, message: str) -> None:
        super().__init__(f"{method} {path}: {code} {message}")
        self.code = code


class Api:
    """Requests to one server with one identity."""

    def __init__(self, url: str, token: str = "", authority: Path | None = None) -> None:
        self.url = url
        self.token = token
        self.authority = authority
        self._address = urlsplit(url)
        self._tls = ssl.create_default_context(cafile=str(authority)) if authority else None
        self._local = threading.local()

    def connect(self, timeout_seconds: float | None = REQUEST_SECONDS) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "127.0.0.1", self._address.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=timeout_seconds)

    def close(self) -> None:
        """Closes this thread's connection."""
        connection: http.client.HTTPConnection | None = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def request(self, method: str, path: str, body: object = None, content_type: str = JSON) -> Object:
        """The decoded answer. Raises ApiStatusError for 400 and above, OSError or HTTPException without an answer."""
        try:
            code, answer = self._exchange(method, path, body, content_type)
        except (ConnectionError, ssl.SSLEOFError, http.client.BadStatusLine, http.client.CannotSendRequest):
            self.close()
            code, answer = self._exchange(method, path, body, content_type)
        if code >= 400:
            raise ApiStatusError(method, path, code, message_of(answer))
        return decoded(answer)

    def exchange(self, method: str, path: str, body: object, content_type: str = JSON) -> tuple[int, Object]:
        """Code and decoded answer, refusals included."""
        code, answer = self._exchange(method, path, body, content_type)
        return code, decoded(answer)

    def _exchange(self, method: str, path: str, body: object, content_type: str) -> tuple[int, bytes]:
        connection = self._local.__dict__.setdefault("connection", None) or self.connect()
        self._local.connection = connection
        payload = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, payload, self.headers(content_type))
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            self.close()
            raise

    def headers(self, content_type: str = JSON) -> dict[str, str]:
        credentials = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"Content-Type": content_type, "Accept": JSON, "User-Agent": "kscheduler-tests"} | credentials

    def get(self, path: str, **parameters: str) -> Object:
        return self.request("GET", with_query(path, parameters))

    def create(self, path: str, body: Object) -> Object:
        return self.request("POST", path, body)

    def patch(self, path: str, body: Object, content_type: str = MERGE_PATCH) -> Object:
        return self.request("PATCH", path, body, content_type)

    def delete(
        self, path: str, *, grace_seconds: int | None = None, missing_ok: bool = False, uid: str | None = None
    ) -> None:
        """Deletes the object, or the collection, that `path` names; with `uid` only the one that has it (else 409)."""
        body: Object = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            self.request("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions"} | body)
        except ApiStatusError as error:
            if error.code != 404 or not missing_ok:
                raise

    def items(self, path: str, **parameters: str) -> list[Object]:
        found: list[Object] = self.get(path, **parameters)["items"]
        return found

    def answers(self, path: str) -> bool:
        """Whether a GET of `path` succeeds now."""
        try:
            self.request("GET", path)
        except (OSError, http.client.HTTPException, ApiStatusError):
            return False
        return True

    @contextmanager
    def watch(self, path: str, parameters: Mapping[str, str]) -> Iterator["WatchStream"]:
        """A watch on a connection of its own. Raises ApiStatusError if it is refused."""
        connection = self.connect(timeout_seconds=None)
        try:
            connection.request("GET", with_query(path, {"watch": "1", **parameters}), headers=self.headers())
            raw = connection.sock
            response = connection.getresponse()
            if response.status >= 400:
                raise ApiStatusError("WATCH", path, response.status, message_of(response.read()))
            stream = WatchStream(response, raw)
            yield stream
        finally:
            connection.close()


class WatchStream:
    """The events of one watch, as dictionaries with `type` and `object`; `cut` ends it from another thread."""

    def __init__(self, response: http.client.HTTPResponse, raw: socket.socket) -> None:
        self._response = response
        self._socket = raw

    def __iter__(self) -> Iterator[Object]:
        """Ends when the server closes, or breaks, the connection."""
        while True:
            try:
                line = self._response.readline()
            except (OSError, ValueError, http.client.HTTPException):
                return
            if not line.endswith(b"\n"):
                return
            yield json.loads(line)

    def cut(self) -> None:
        try:
            # Not SSLSocket's own shutdown: it drops TLS first, and the reading thread would get ciphertext as text.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError:
            return


def decoded(answer: bytes) -> Object:
    try:
        value = json.loads(answer)
    except ValueError:
        return {"text": answer.decode(errors="replace")}
    return value if isinstance(value, dict) else {"value": value}


def message_of(answer: bytes) -> str:
    return str(decoded(answer).get("message", answer[:300].decode(errors="replace")))


def with_query(path: str, parameters: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(parameters)}" if parameters else path
