"""The faults that are played, in families: a line is a fault, and its id is the test's."""

import gzip
import json
from typing import Any

from tests.e2e.faults.fault import (
    Action,
    Applied,
    CutAnswer,
    Delay,
    EachEvent,
    Edited,
    EndStream,
    Explanation,
    Fault,
    Hang,
    Injected,
    Raw,
    Requests,
    Reset,
    SlowAnswer,
    StallStream,
    Swapped,
    TwiceAnswered,
    Unreachable,
)
from tests.e2e.faults.proxy import EXPIRED

HURT = "*-hurt"
BINDINGS = Requests("create", "pods/binding")
HURT_BINDINGS = Requests("create", "pods/binding", HURT)
WATCHES = Requests("watch|watchlist", "*")
RELISTS = Requests("list|watchlist", "pods|nodes")
POD_WATCH = Requests("watch|watchlist", "pods")
EVENTS = Requests("*", "events")
STATUS = Requests("patch|update", "pods/status")
VOLUMES = Requests("update|patch", "persistentvolumes")
VOLUME_CLAIMS = Requests("update|patch", "persistentvolumeclaims")
CLAIMS = Requests("update|patch", "resourceclaims|resourceclaims/status")
EVICTIONS = Requests("delete|create", "pods|pods/eviction")
LEASES = Requests("*", "leases")

HTML = b"<html><head><title>Welcome</title></head><body>Please sign in.</body></html>"
RETRY_AFTERS = {
    "1": "1",
    "an-hour": "3600",
    "forty-digits": "9" * 40,
    "negative": "-1",
    "a-date": "Sat, 28 Nov 2099 12:00:00 GMT",
    "nan": "nan",
    "infinity": "inf",
    "garbage": "soon, perhaps",
    "superscript": "\u00b2",
    "empty": "",
}


def page(code: int = 200) -> Explanation:
    return Explanation(code, HTML, content_type="text/html")


def throttled(retry_after: str, code: int = 429) -> Explanation:
    return Explanation(code, headers=(("Retry-After", retry_after),))


def error_event(status: object) -> bytes:
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


# Answers that no API server gives; the request was not applied.
WRONG_BODIES: dict[str, Explanation] = {
    "an-html-page": page(),
    "an-empty-body": Explanation(200, b""),
    "204": Explanation(204, b""),
    "another-kind": Explanation(200, b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x"}}'),
    "cut-json": Explanation(201, b'{"kind":"Status","apiVersion":"v1","metadata":{},"stat'),
    "a-list": Explanation(200, b"[]"),
    "null": Explanation(200, b"null"),
    "gzip-that-is-none": Explanation(200, b"\x1f\x8b\x08\x00 no", headers=(("Content-Encoding", "gzip"),)),
    "a-redirect": Explanation(302, b"", headers=(("Location", "https://127.0.0.1:1/login"),)),
    "a-permanent-redirect": Explanation(308, b"", headers=(("Location", "/elsewhere"),)),
    "200-with-a-failure": Explanation(200, b'{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}'),
    "100-for-ever": Explanation(102, b""),
    "304": Explanation(304, b""),
    "a-status-of-html-error": page(502),
}


# --- edits ----------------------------------------------------------------------------------------------------------


def gzip_of(body: bytes) -> bytes:
    return gzip.compress(body)


def half(body: bytes) -> bytes:
    return body[: len(body) // 2]


def nothing(body: bytes) -> bytes:
    del body
    return b""


def html(body: bytes) -> bytes:
    del body
    return HTML


def changed_items(body: bytes, change: Any) -> bytes:
    value = json.loads(body)
    if not isinstance(value, dict) or not value.get("items"):
        return body
    return json.dumps(value | {"items": change(value["items"])}).encode()


def nameless(item: dict[str, Any]) -> dict[str, Any]:
    metadata = {key: value for key, value in item.get("metadata", {}).items() if key != "name"}
    return item | {"metadata": metadata}


def unreadable(item: dict[str, Any]) -> dict[str, Any]:
    return item | {"spec": "\u2603", "status": 7}


def last_unreadable(body: bytes) -> bytes:
    return changed_items(body, lambda items: [*items[:-1], unreadable(items[-1])])


def last_nameless(body: bytes) -> bytes:
    return changed_items(body, lambda items: [*items[:-1], nameless(items[-1])])


def twice_each(body: bytes) -> bytes:
    return changed_items(body, lambda items: [*items, *items])


def items_null(body: bytes) -> bytes:
    value = json.loads(body)
    return json.dumps(value | {"items": None}).encode() if isinstance(value, dict) and "items" in value else body


def other_kind(body: bytes) -> bytes:
    value = json.loads(body)
    return json.dumps({"kind": "ConfigMapList", "apiVersion": "v1", "items": []}).encode() if "items" in value else body


def not_json(line: bytes) -> list[bytes]:
    return [line.replace(b'"object":{', b'"object":{{', 1)]


def unreadable_event(line: bytes) -> list[bytes]:
    event = json.loads(line)
    return [json.dumps(event | {"object": unreadable(event["object"])}).encode() + b"\n"]


def nameless_event(line: bytes) -> list[bytes]:
    event = json.loads(line)
    return [json.dumps(event | {"object": nameless(event["object"])}).encode() + b"\n"]


def unknown_type(line: bytes) -> list[bytes]:
    return [line.replace(b'"type":"ADDED"', b'"type":"RENAMED"', 1)]


def twice(line: bytes) -> list[bytes]:
    return [line, line]


def lost(line: bytes) -> list[bytes]:
    del line
    return []


def flipped_bytes(line: bytes) -> list[bytes]:
    """A bit of the middle is another one, as a bad memory module has it."""
    middle = len(line) // 2
    return [line[:middle] + bytes([line[middle] ^ 0x80]) + line[middle + 1 :]]


SUCCESS = b'{"kind":"Status","apiVersion":"v1","status":"Success"}'
# Answers that are no HTTP, or break its rules.
WIRE: dict[str, Action] = {
    "another-protocol": Raw(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "a-tls-alert": Raw(b"\x15\x03\x01\x00\x02\x02\x46"),
    "noughts": Raw(b"\0" * 4096),
    "http-2": Raw(b"\0\0\x12\x04\0\0\0\0\0" + b"\0" * 18),
    "a-code-that-is-no-number": Raw(b"HTTP/1.1 OK fine\r\nContent-Length: 0\r\n\r\n"),
    "a-header-without-an-end": Raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2_000_000),
    "a-length-that-is-no-number": Raw(b"HTTP/1.1 201 Created\r\nContent-Length: many\r\n\r\n" + SUCCESS),
    "a-negative-length": Raw(b"HTTP/1.1 201 Created\r\nContent-Length: -5\r\n\r\n" + SUCCESS),
    "a-length-too-long": Raw(b"HTTP/1.1 201 Created\r\nContent-Length: 999999\r\n\r\n" + SUCCESS),
    "a-chunk-size-that-is-none": Raw(b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + SUCCESS),
    "more-than-its-length": Raw(b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n" + SUCCESS * 9, closes=False),
}


# How names of actions end of which another one of each family says nearly as much.
ALIKE = (
    *("400", "404", "405", "413", "422", "504"),
    *("negative", "infinity", "garbage", "superscript", "empty", "429-1"),
    *("a-list", "null", "another-kind", "a-permanent-redirect", "100-for-ever", "304", "a-redirect"),
    *("a-tls-alert", "noughts", "http-2", "a-code-that-is-no-number", "a-length-that-is-no-number"),
    *("a-negative-length", "more-than-its-length", "a-header-without-an-end", "an-empty-body"),
    *("closed", "cut-in-the-head", "cut-in-the-body", "a-number", "an-empty-object", "error-500"),
)


# --- families -------------------------------------------------------------------------------------------------------


def family(name: str, requests: Requests, actions: dict[str, Action], **more: Any) -> list[Fault]:
    """A fault for each action, with its name after the family's."""
    return [
        Fault(f"{name}-{what}", requests, action, **{"is_rare": what.endswith(ALIKE)} | more)
        for what, action in actions.items()
    ]


CODES: dict[str, Action] = {
    str(code): Explanation(code) for code in (400, 401, 403, 404, 405, 409, 413, 422, 500, 503, 504)
}
CUTS: dict[str, Action] = {
    "reset": Reset(),
    "closed": Reset(quietly=True),
    "applied-then-reset": Applied(Reset()),
    "applied-then-500": Applied(Explanation(500)),
    "applied-then-429": Applied(throttled("1")),
    "applied-then-html": Applied(page()),
    "cut-in-the-head": CutAnswer("head"),
    "cut-in-the-body": CutAnswer("length"),
    "cut-in-a-chunk": CutAnswer("chunk"),
    "cut-by-a-reset": CutAnswer("length", resets=True),
    "answered-twice": TwiceAnswered(),
}

BINDING_FAULTS = [
    *family("bindings", BINDINGS, CODES),
    *family("bindings", BINDINGS, dict(WRONG_BODIES)),
    *family("bindings", BINDINGS, CUTS),
    *family("bindings", BINDINGS, WIRE, speaks_http=False),
    *family("bindings-retry-after", BINDINGS, {name: throttled(text) for name, text in RETRY_AFTERS.items()}),
    *family(
        "bindings-503-retry-after",
        BINDINGS,
        {"an-hour": throttled("3600", 503), "1": throttled("1", 503)},
        is_rare=True,
    ),
    Fault("bindings-some-of-each", Requests("create", "pods/binding", probability=0.3), Applied(Reset()), seconds=5),
    Fault("bindings-slow-answers", BINDINGS, SlowAnswer(200), seconds=5),
    Fault("bindings-hang", BINDINGS, Hang(), seconds=5),
    Fault("bindings-applied-then-hang", BINDINGS, Applied(Hang()), seconds=5),
    Fault("bindings-hang-for-ever", BINDINGS, Hang(for_ever=True), seconds=5, is_long=True),
    Fault("bindings-come-and-go", BINDINGS, Explanation(503), seconds=6, on_off=(0.3, 0.3)),
    *family(
        "bindings-that-hang-are-told",
        HURT_BINDINGS,
        {"hang": Hang(), "take-20-s-and-fail": Delay(20, Explanation(500))},
        hurt_pods=100,
        seconds=5,
        # In the log once a minute, and a fault before this one may have had its line; in /readyz?verbose all the time.
        reported=(
            r'"writes_hang".*"namespace":"[\w-]+-hurt"|\bnamespace [\w-]+-hurt: \d+ writes \(create pods/binding\)',
        ),
    ),
    *family(
        "bindings-of-one-namespace",
        HURT_BINDINGS,
        {
            "hang": Hang(),
            "take-10-s-and-fail": Delay(10, Explanation(500)),
            "429": throttled("1"),
            "429-for-an-hour": throttled("3600"),
            "500": Explanation(500),
            "403": Explanation(403),
            "applied-then-hang": Applied(Hang()),
        },
        hurt_pods=100,
        seconds=5,
        spares_others=True,
    ),
]

WATCH_FAULTS = [
    *family(
        "watches",
        WATCHES,
        {
            "end": EndStream(),
            "cut-within-a-line": EndStream("line"),
            "cut-within-a-chunk": EndStream("chunk"),
            "reset": EndStream("reset"),
            "stall-then-pass": StallStream(),
            "stall-then-reset": StallStream(passes_later=False),
            "410-in-the-stream": Injected(EXPIRED),
            "error-that-is-no-status": Injected(error_event({"kind": "Pod", "metadata": {"name": "x"}})),
            "error-null": Injected(error_event(None)),
            "error-500": Injected(error_event({"kind": "Status", "status": "Failure", "code": 500, "message": "no"})),
            "error-429": Injected(
                error_event(
                    {
                        "kind": "Status",
                        "status": "Failure",
                        "code": 429,
                        "reason": "TooManyRequests",
                        "details": {"retryAfterSeconds": 3600},
                    }
                )
            ),
            "html-in-the-stream": Injected(HTML + b"\n"),
            "an-empty-object": Injected(b"{}\n"),
            "a-blank-line": Injected(b"\n"),
            "a-number": Injected(b"7\n"),
            "not-json": EachEvent(not_json),
            "flipped-bytes": EachEvent(flipped_bytes),
            "events-twice": EachEvent(twice),
            "unknown-types": EachEvent(unknown_type),
        },
    ),
    Fault("pod-watch-unreadable", Requests("watch|watchlist", "pods"), EachEvent(unreadable_event)),
    Fault("pod-watch-nameless", Requests("watch|watchlist", "pods"), EachEvent(nameless_event)),
    Fault("pod-watch-one-garbled", Requests("watch|watchlist", "pods", first=1), EachEvent(flipped_bytes)),
    Fault("node-watch-nameless", Requests("watch|watchlist", "nodes"), EachEvent(nameless_event)),
    Fault("node-watch-unreadable", Requests("watch|watchlist", "nodes"), EachEvent(unreadable_event)),
    Fault("pod-watch-swapped", POD_WATCH, Swapped(), loses_events=True),
    *family(
        "pod-watch-lost",
        Requests("watch|watchlist", "pods", probability=0.3),
        {"events": EachEvent(lost)},
        is_long=True,
        loses_events=True,
        heals_within=420,
    ),
]

REFUSALS: dict[str, Action] = {
    **{str(code): Explanation(code) for code in (400, 401, 403, 404, 410, 500, 503)},
    **{f"429-{name}": throttled(text) for name, text in RETRY_AFTERS.items()},
    "503-an-hour": throttled("3600", 503),
    "an-html-page": page(),
    "an-empty-body": Explanation(200, b""),
    "204": Explanation(204, b""),
    "a-redirect": Explanation(302, b"", headers=(("Location", "https://127.0.0.1:1/login"),)),
    "gzip-that-is-none": Explanation(200, b"\x1f\x8b\x08\x00 no", headers=(("Content-Encoding", "gzip"),)),
    "reset": Reset(),
    "closed": Reset(quietly=True),
    "hang": Hang(),
    "slow": Delay(2),
}
WATCH_DOWN = (
    r'kscheduler_watch_down_seconds\{reason="[^"]+",resource="pods"\} [1-9]',
    r"\bpods: list or watch fails: no watch for \d+ s: .*tried again",
)
OPENING_FAULTS = [
    *family("watches-opened-again", WATCHES, REFUSALS, open_watches="end"),
    *family(
        "watches-down-is-told",
        WATCHES,
        {what: REFUSALS[what] for what in ("503", "429-an-hour", "reset", "hang", "an-html-page")},
        open_watches="end",
        seconds=5,
        reported=WATCH_DOWN,
    ),
    *family("watches-opened-again", WATCHES, WIRE, open_watches="end", speaks_http=False, is_rare=True),
]
LIST_FAULTS = [
    *family("lists", RELISTS, REFUSALS, open_watches="expire", is_rare=True),
    *family(
        "lists",
        Requests("list", "pods|nodes"),
        {
            "cut-in-the-body": CutAnswer("length"),
            "cut-in-a-chunk": CutAnswer("chunk"),
            "slow-bytes": SlowAnswer(2_000),
            "half-a-body": Edited(half),
            "items-null": Edited(items_null),
            "another-kind": Edited(other_kind),
            "items-twice": Edited(twice_each),
        },
        open_watches="expire",
    ),
    *family("lists", RELISTS, WIRE, open_watches="expire", speaks_http=False, is_rare=True),
    Fault("lists-of-pods-one-unreadable", Requests("list", "pods"), Edited(last_unreadable), open_watches="expire"),
    Fault("lists-of-pods-one-nameless", Requests("list", "pods"), Edited(last_nameless), open_watches="expire"),
    Fault("lists-of-nodes-one-unreadable", Requests("list", "nodes"), Edited(last_unreadable), open_watches="expire"),
    Fault("lists-of-nodes-one-nameless", Requests("list", "nodes"), Edited(last_nameless), open_watches="expire"),
]
OTHER_WRITES: dict[str, Action] = {
    "500": Explanation(500),
    "403": Explanation(403),
    "404": Explanation(404),
    "409": Explanation(409),
    "429-1": throttled("1"),
    "429-an-hour": throttled("3600"),
    "an-html-page": page(),
    "204": Explanation(204, b""),
    "cut-json": WRONG_BODIES["cut-json"],
    "reset": Reset(),
    "applied-then-reset": Applied(Reset()),
    "applied-then-500": Applied(Explanation(500)),
    "cut-in-a-chunk": CutAnswer("chunk"),
    "hang": Hang(),
}
# Besides the others, for what is written before a pod is bound and has to be there once.
BEFORE_A_BINDING: dict[str, Action] = {
    "another-kind": WRONG_BODIES["another-kind"],
    "an-empty-body": WRONG_BODIES["an-empty-body"],
    "404-then-as-before": Delay(1, Explanation(404)),
    "applied-then-409": Applied(Explanation(409)),
    "applied-then-html": Applied(page()),
    "applied-then-hang": Applied(Hang()),
}


def of_volumes(name: str, requests: Requests, usual: set[str]) -> list[Fault]:
    """Of these only the usual ones are played by default."""
    return [
        fault
        for what, action in (OTHER_WRITES | BEFORE_A_BINDING).items()
        for fault in family(name, requests, {what: action}, traffic="volumes", is_rare=what not in usual)
    ]


WRITE_FAULTS = [
    *family("events", EVENTS, OTHER_WRITES, is_rare=True),
    *family("status", STATUS, OTHER_WRITES, is_rare=True),
    *family("evictions", EVICTIONS, OTHER_WRITES, traffic="preemption"),
    *family("claims", CLAIMS, OTHER_WRITES, traffic="claims", is_rare=True),
    *family("claims", CLAIMS, BEFORE_A_BINDING, traffic="claims", is_rare=True),
    *of_volumes("volumes", VOLUMES, {"409", "an-html-page", "applied-then-reset"}),
    *of_volumes("volume-claims", VOLUME_CLAIMS, {"hang", "429-an-hour", "another-kind"}),
    *family("events-of-one-namespace", Requests("*", "events", HURT), {"hang": Hang()}, hurt_pods=100, seconds=5),
]
LEASE_FAULTS = family(
    "leases",
    LEASES,
    {
        "500": Explanation(500),
        "429-an-hour": throttled("3600"),
        "an-html-page": page(),
        "204": Explanation(204, b""),
        "reset": Reset(),
        "applied-then-reset": Applied(Reset()),
        "409": Explanation(409),
        "hang": Hang(),
        "take-5-s": Delay(5),
    },
    elects=True,
    seconds=5,
) + family("leases-for-25-s", LEASES, {"500": Explanation(500), "hang": Hang()}, elects=True, seconds=25, is_long=True)
EVERYTHING = Requests()
SERVER_FAULTS = [
    Fault("server-unreachable", EVERYTHING, Unreachable(), seconds=5),
    Fault("server-silent", EVERYTHING, Unreachable(silently=True), seconds=5),
    Fault("server-silent-with-watches-open", WATCHES, StallStream(passes_later=False), seconds=20, is_long=True),
    Fault("watches-stall-for-ever", WATCHES, StallStream(for_ever=True), seconds=20, is_long=True),
    Fault("everything-503", EVERYTHING, Explanation(503), open_watches="end", seconds=5),
    Fault("everything-401", EVERYTHING, Explanation(401), open_watches="end", seconds=5),
    Fault("everything-an-html-page", EVERYTHING, page(), open_watches="end", seconds=5),
    Fault("everything-429-an-hour", EVERYTHING, throttled("3600"), open_watches="end", seconds=5),
    Fault("everything-slow", EVERYTHING, Delay(0.5), seconds=5),
    Fault("a-third-of-everything-reset", Requests(probability=0.3), Reset(), seconds=5),
    Fault("writes-hang", Requests("create|patch|update|delete"), Hang(), seconds=5),
    Fault("writes-an-html-page", Requests("create|patch|update|delete"), page(), seconds=5),
]
FAULTS = [
    *BINDING_FAULTS,
    *WATCH_FAULTS,
    *OPENING_FAULTS,
    *LIST_FAULTS,
    *WRITE_FAULTS,
    *LEASE_FAULTS,
    *SERVER_FAULTS,
]

# Those that are always played on both API servers; the others on the embedded one.
ON_THE_REAL_ONE = frozenset(
    {
        "bindings-500",
        "bindings-an-html-page",
        "bindings-204",
        "bindings-applied-then-reset",
        "bindings-cut-in-a-chunk",
        "bindings-some-of-each",
        "bindings-applied-then-hang",
        "bindings-retry-after-an-hour",
        "bindings-of-one-namespace-hang",
        "bindings-of-one-namespace-429",
        "bindings-of-one-namespace-take-10-s-and-fail",
        "watches-reset",
        "watches-cut-within-a-chunk",
        "watches-410-in-the-stream",
        "watches-error-that-is-no-status",
        "watches-not-json",
        "pod-watch-unreadable",
        "pod-watch-one-garbled",
        "watches-opened-again-429-an-hour",
        "watches-opened-again-hang",
        "lists-429-forty-digits",
        "lists-429-an-hour",
        "lists-half-a-body",
        "lists-of-nodes-one-nameless",
        "lists-of-pods-one-unreadable",
        "events-of-one-namespace-hang",
        "status-204",
        "claims-applied-then-reset",
        "claims-an-html-page",
        "volumes-applied-then-reset",
        "evictions-an-html-page",
        "leases-an-html-page",
        "server-unreachable",
        "server-silent",
        "everything-429-an-hour",
        "writes-an-html-page",
    }
)
