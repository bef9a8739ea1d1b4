"""What the API server would answer, for the tests of plugins that ask it themselves."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kscheduler.client.errors import APIError, status_of


class APIServerAnswers:
    """Stands for `Handle.client`: answers reads from a table, and notes writes.

    `answers` may be changed meanwhile: `client.answers[path] = {...}` is what the next refresh gets.
    """

    def __init__(self, answers: Mapping[str, Any] | None = None) -> None:
        """`answers`: by path, what is sent as JSON; an exception is raised. Any other path is 404."""
        self.answers = dict(answers or {})
        """By path; yours to change."""
        self.written: list[tuple[str, str, bytes]] = []
        """Method, path and body of each write."""

    async def get(
        self, path: str, params: Mapping[str, str] | None = None, *, timeout_seconds: float | None = None
    ) -> bytes:
        """The table's answer as JSON. Raises `APIError` (404) for any other path, and what the table has to raise."""
        del params, timeout_seconds
        return self._result("GET", path)

    async def post(self, path: str, body: bytes, *, timeout_seconds: float | None = None) -> bytes:
        """Noted; the answer is the body."""
        del timeout_seconds
        return self._note("POST", path, body)

    async def put(self, path: str, body: bytes, *, timeout_seconds: float | None = None) -> bytes:
        """Noted; the answer is the body."""
        del timeout_seconds
        return self._note("PUT", path, body)

    async def patch(
        self, path: str, body: bytes, content_type: str = "", *, timeout_seconds: float | None = None
    ) -> bytes:
        """Noted; the answer is the body."""
        del content_type, timeout_seconds
        return self._note("PATCH", path, body)

    async def delete(self, path: str, body: bytes = b"", *, timeout_seconds: float | None = None) -> bytes:
        """Noted; the answer is the body."""
        del timeout_seconds
        return self._note("DELETE", path, body)

    def _result(self, method: str, path: str) -> bytes:
        if path not in self.answers:
            raise APIError(status_of(404, b""), method=method, path=path)
        answer = self.answers[path]
        if isinstance(answer, BaseException):
            raise answer
        return msgspec.json.encode(answer)

    def _note(self, method: str, path: str, body: bytes) -> bytes:
        failure = self.answers.get(path)
        if isinstance(failure, BaseException):
            raise failure
        self.written.append((method, path, body))
        return body
