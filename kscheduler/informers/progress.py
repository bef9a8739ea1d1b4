"""A reflector's next request, and what an answer means: client-go's rules, without I/O.

    LIST ──listed──> WATCH ──ended, cut, silent, refused──> WATCH (same version, no list)
     ^                 └──410, other errors──> LIST at the last version seen (never back in time)
     └─410 or "too large resource version": LIST again without a version (consistent)

WATCH_LIST replaces LIST if the server supports it: the objects arrive on a stream that continues as the watch.
A resourceVersion is an opaque string here, compared for equality only.

A watch that brings nothing is either quiet or dead, and bookmarks come once a minute at most, for some kinds never (the
watch cache drops those that are no newer than the request). So the watch after a silent one asks to end before it would
count as silent: that it ends in order shows that it was alive. Two seconds earlier kube-apiserver sends a bookmark, if
there is one (`nextBookmarkTime` of its watch cache). Once something happens the next watch is a long one again.

Differences from client-go: the first LIST is consistent (client-go accepts any version, which after a change of leader
can miss the old leader's binds); a watch that ends at once is opened again after a delay, without a list; and so is one
that was refused for a reason that says nothing about its version (401, 403, 429, 502 to 504): after a mistake in RBAC,
or while a load balancer has no server, the history still has what was missed, and a dozen lists would not help.
"""

import random
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec
from msgspec.structs import replace

from kscheduler.client.errors import APIError, APIStatus, ClientError, NotSentError, StalledError
from kscheduler.client.outage_cause import Cause, cause_of_failure, cause_of_refusal
from kscheduler.client.watch import WatchEvent

PAGE_SIZE = 500
VERY_SHORT_SECONDS = 1.0
LONG_WATCH_SECONDS = (300, 600)
# Below `reflector.INACTIVITY_SECONDS`, with time for a busy server to end it.
QUIET_WATCH_SECONDS = (35, 40)
_SAY_NOTHING_OF_THE_VERSION = frozenset({401, 403, 429, 502, 503, 504})
# How long a watch that ends in InternalError is opened again before the objects are listed again.
_INTERNAL_ERROR_SECONDS = 60.0


class RequestKind(Enum):
    """The three requests of a reflector."""

    LIST = "list"
    WATCH_LIST = "watch-list"
    WATCH = "watch"


class ListOrWatch(msgspec.Struct, frozen=True):
    """A request to the API server."""

    want: RequestKind
    params: dict[str, str]


class NextStep(msgspec.Struct, frozen=True):
    """What a finished request means for the next one."""

    reason: str
    """For counters: `ended`, `quiet`, `expired`, `refused`, `stalled`, `forbidden`, ..."""
    back_off: bool = False
    at_least_seconds: float = 0.0
    """The server's Retry-After, bounded by `client.errors`."""
    detail: str = ""
    is_unreached: bool = False
    """No server was reached: it is worth looking whether one can be, before the backoff is over."""
    lists_again: bool = False
    """Whether a watch of objects that are known leads to a list of them all."""


class Progress:
    """The state of a reflector."""

    def __init__(
        self, rng: random.Random, *, field_selector: str = "", consistent: bool = True, watch_list: bool = True
    ) -> None:
        """`consistent`: the first list shows all writes before it; otherwise any cached state will do."""
        self._rng = rng
        self._selector = {"fieldSelector": field_selector} if field_selector else {}
        self._first_version = "" if consistent else "0"
        self._watch_list = watch_list
        self._list_plainly = False
        self._must_list = True
        self._unavailable = False
        self._unpaged = False
        self._from_any = False
        self._internal_error_since: float | None = None
        self._is_quiet = False
        """Whether nothing but bookmarks has come since a watch fell silent."""
        self._ends_early = False
        """Whether this watch was asked for as a quiet one."""
        self._watched_from = ""
        """The version that this watch began at."""
        self.resource_version = ""
        """The last version seen; empty before the first list."""
        self.list_reason = "start"
        """Why the objects are listed."""

    # --- requests -----------------------------------------------------------------------------------------------------

    def next_request(self) -> ListOrWatch:
        """The request to make now."""
        if not self._must_list:
            return ListOrWatch(RequestKind.WATCH, self._watch_params())
        if self._watch_list and not self._list_plainly:
            return ListOrWatch(RequestKind.WATCH_LIST, self._watch_list_params())
        return ListOrWatch(RequestKind.LIST, self.page_params(""))

    def page_params(self, continue_token: str) -> dict[str, str]:
        """LIST, from the beginning or from a continue token. The watch cache pages version 0 only."""
        if continue_token:
            return {**self._selector, "limit": str(PAGE_SIZE), "continue": continue_token}
        version = "" if self._unavailable else self.resource_version or self._first_version
        params = {**self._selector, "resourceVersion": version} if version else dict(self._selector)
        if version in ("", "0") and not self._unpaged:
            params["limit"] = str(PAGE_SIZE)
        return params

    def _watch_params(self) -> dict[str, str]:
        self._from_any = self.resource_version in ("", "0")
        self._watched_from = self.resource_version
        self._ends_early = self._is_quiet
        seconds = self._rng.randint(*(QUIET_WATCH_SECONDS if self._is_quiet else LONG_WATCH_SECONDS))
        return {
            **self._selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
            "resourceVersion": self.resource_version,
        }

    def _watch_list_params(self) -> dict[str, str]:
        self._is_quiet = False  # its initial events may take longer than a quiet watch has
        params = self._watch_params()
        params |= {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        params["resourceVersion"] = "" if self._unavailable else self.resource_version
        return params

    # --- answers ------------------------------------------------------------------------------------------------------

    def listed(self, resource_version: str) -> None:
        """The store has been replaced by the state at this version."""
        self.resource_version = resource_version
        self._must_list = self._unavailable = self._unpaged = self._list_plainly = self._from_any = False

    def saw(self, event_type: str, resource_version: str) -> None:
        """A watch event has been applied. A watch from any version begins with ADDED events in no order of versions."""
        if not resource_version:
            return
        if self._from_any:
            if event_type == "ADDED":
                return
            self._from_any = False
        if event_type != "BOOKMARK":
            self._is_quiet = False
        self.resource_version = resource_version
        self._internal_error_since = None

    def saw_run(self, events: Sequence[WatchEvent[Any]]) -> None:
        """Watch events have been applied, in this order."""
        if self._from_any:
            for event in events:
                self.saw(event.type, event.object.metadata.resource_version)
        elif events:  # the last one is the newest
            self.saw(events[-1].type, events[-1].object.metadata.resource_version)

    def watch_list_ignored(self) -> NextStep:
        """The server is too old for WatchList and has opened a plain watch."""
        self._watch_list = False
        return NextStep("watch-list unsupported")

    def page_failed(self, error: ClientError) -> NextStep:
        """The second or a later page of a list failed; after an expired token the next list is unpaged."""
        if isinstance(error, APIError) and error.is_gone and not self._unpaged:
            self._unpaged = True
            return NextStep("page expired")
        return self.list_failed(error)

    def list_failed(self, error: ClientError) -> NextStep:
        """A LIST was refused or broke."""
        if _version_is_unavailable(error) and not self._unavailable:
            self._unavailable = True
            return NextStep("expired")
        return _backing_off(error)

    def watch_list_failed(self, error: ClientError) -> NextStep:
        """A WatchList was refused, or ended before its initial events were complete."""
        if _version_is_unavailable(error) and not self._unavailable:
            self._unavailable = True
            return NextStep("expired")
        if isinstance(error, NotSentError) or (isinstance(error, APIError) and error.is_too_many_requests):
            return _backing_off(error)
        if isinstance(error, APIError) and error.is_invalid:
            return self.watch_list_ignored()
        self._list_plainly = True
        return _backing_off(error)

    def watch_broke(self, error: ClientError, seconds: float, *, was_open: bool = True) -> NextStep:
        """A watch got no answer, or its stream was cut or fell silent. The next watch resumes at the same version."""
        if was_open and isinstance(error, StalledError):
            self._is_quiet = True
        if not was_open or isinstance(error, NotSentError) or self._was_fruitless(seconds):
            return _backing_off(error)
        return NextStep(_reason(error), detail=str(error))

    def watch_refused(self, error: APIError, now: float) -> NextStep:
        """A watch was refused by the server, or ended in an ERROR event. `now` in monotonic seconds."""
        keeps_version = error.code in _SAY_NOTHING_OF_THE_VERSION or (error.code == 500 and self._may_watch_again(now))
        if keeps_version and not _version_is_unavailable(error):
            return _backing_off(error)
        self._must_list = True
        verdict = replace(_backing_off(error), lists_again=True)
        self.list_reason = verdict.reason
        return verdict

    def watch_ended(self, seconds: float) -> NextStep:
        """The server ended the stream. Backs off if it brought nothing new within a second, to avoid a busy loop."""
        if self._was_fruitless(seconds):
            return NextStep("very short watch", back_off=True)
        return NextStep("quiet" if self._ends_early and seconds >= QUIET_WATCH_SECONDS[0] - 1 else "ended")

    def _was_fruitless(self, seconds: float) -> bool:
        """Whether a watch ended at once and would begin again where it began: lines that bring nothing do not count."""
        return seconds < VERY_SHORT_SECONDS and self.resource_version == self._watched_from

    def garbled(self, detail: str) -> NextStep:
        """What came is no watch event or no list: events may have been missed. The next list is a plain one."""
        verdict = NextStep("garbled", back_off=True, detail=detail, lists_again=not self._must_list)
        self._must_list = self._list_plainly = True
        self.list_reason = "garbled"
        return verdict

    def list_again(self, reason: str) -> NextStep:
        """The store differs from the server: list, consistently."""
        self._must_list = self._unavailable = True
        self.list_reason = reason
        return NextStep(reason)

    @property
    def resumes_at(self) -> str:
        """The version at which the next watch begins; empty: a list is needed."""
        return "" if self._must_list else self.resource_version

    def resume(self, resource_version: str) -> None:
        """The store is already the state at this version: watch."""
        self.listed(resource_version)

    def start_over(self) -> None:
        """Forget everything: the API was gone."""
        self.resource_version = ""
        self._must_list, self.list_reason = True, "reappeared"

    def _may_watch_again(self, now: float) -> bool:
        if self._internal_error_since is None:
            self._internal_error_since = now
        return now - self._internal_error_since < _INTERNAL_ERROR_SECONDS


def error_of(status: APIStatus) -> APIError:
    """An ERROR event's Status as an `APIError`."""
    return APIError(status, method="WATCH")


def _version_is_unavailable(error: ClientError) -> bool:
    return isinstance(error, APIError) and (error.is_gone or error.is_too_large_resource_version)


def _backing_off(error: ClientError) -> NextStep:
    retry_after = (error.retry_after_seconds or 0.0) if isinstance(error, APIError) else 0.0
    return NextStep(
        _reason(error),
        back_off=True,
        at_least_seconds=retry_after,
        detail=str(error),
        is_unreached=isinstance(error, NotSentError),
    )


# Causes of a refusal that is not the API server's own.
_NOT_THE_SERVER = frozenset((Cause.PROXY, Cause.REDIRECT, Cause.TLS))
_REASONS = {401: "unauthorized", 403: "forbidden", 404: "not found", 429: "too many requests"}


def _reason(error: ClientError) -> str:
    """What a list or watch failed by: the word of the table of causes, except for what the API server itself says."""
    if isinstance(error, APIError):
        if error.is_gone:
            return "expired"
        refused = cause_of_refusal(error)
        if refused is not None and refused.cause in _NOT_THE_SERVER:
            return str(refused.cause)
        return _REASONS.get(error.code) or ("server error" if error.is_server_error else "refused by the server")
    if isinstance(error, StalledError):
        return "stalled"
    cause = cause_of_failure(error).cause
    return str(Cause.REFUSED if cause is Cause.BROKEN and isinstance(error, NotSentError) else cause)
