"""The answer to a new Event is read only as far as it must be, and still is taken for one only if it is one."""

import pytest

from kscheduler.client import response_checks
from kscheduler.client.http.http1 import HttpRequest
from kscheduler.client.response_checks import response_problem

PATH = "/apis/events.k8s.io/v1/namespaces/ns/events"
SENT = b'{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"pod.17","namespace":"ns"},"note":"n"}'
ANSWER = b'{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"pod.17","namespace":"ns","uid":"u"}}'
OTHERS = {
    "another-name": ANSWER.replace(b"pod.17", b"pod.18"),
    "a-longer-name": ANSWER.replace(b"pod.17", b"pod.177"),
    "a-shorter-name": ANSWER.replace(b"pod.17", b"pod.1"),
    "another-kind": ANSWER.replace(b"Event", b"Pod"),
    "no-name": ANSWER.replace(b"pod.17", b""),
    "cut": ANSWER[:70],
    "empty": b"",
}


def problem(answer: bytes, *, path: str = PATH, sent: bytes = SENT, status: int = 201) -> str | None:
    return response_problem(HttpRequest("POST", path, sent, "application/json"), status, answer)


def test_the_event_that_was_sent_is_known_by_its_name_without_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_checks, "_decoded", None)
    assert problem(ANSWER) is None


@pytest.mark.parametrize("answer", OTHERS)
def test_another_answer_is_none(answer: str) -> None:
    assert problem(OTHERS[answer]) is not None


def test_an_answer_with_its_fields_in_another_order_is_read() -> None:
    swapped = b'{"metadata":{"uid":"u","name":"pod.17"},"apiVersion":"events.k8s.io/v1","kind":"Event"}'
    assert problem(swapped) is None


def test_an_event_is_no_answer_to_what_is_none() -> None:
    assert problem(ANSWER, path="/api/v1/namespaces/ns/pods") is not None
    assert problem(ANSWER, status=203) is not None
