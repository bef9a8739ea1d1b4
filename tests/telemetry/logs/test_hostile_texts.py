"""Thousands of hostile texts, everywhere where a user's text leaves the process: one line, valid JSON, no commands."""

import io
import json
import logging
from collections.abc import Callable

import msgspec
import pytest

from kscheduler.client.events.recorder import LONGEST_NOTE_BYTES, EventReference, _Occurrence, event_body
from kscheduler.config.errors import ConfigError, Problem
from kscheduler.explain.pod_text import decision_text
from kscheduler.framework.pods.queued_pod import QueuedPodInfo
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from kscheduler.scheduling.attempt_events import BindingInDoubt, PodAdded
from kscheduler.scheduling.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure
from kscheduler.scheduling.pod_log import PodLog
from kscheduler.server.health import Health
from kscheduler.state.waiting_pods import PodAtPermit
from kscheduler.telemetry.logs import get_logger
from kscheduler.telemetry.logs.clean import short_line
from kscheduler.telemetry.logs.pipeline import configure
from kscheduler.telemetry.logs.storms import storms
from kscheduler.text import Style, json_line, printable, some
from tests.builders import make_pod, pod_info
from tests.explain.as_json import decision_tree
from tests.explain.scenarios import node_tree, pod_tree, scenario_line
from tests.telemetry.logs.hostile import COUNT, hostile_texts, obeyed

THOUSANDS = pytest.mark.slow("writes two thousand hostile texts in each way")

TEXTS = hostile_texts()
FORMATS = ("json", "text")


def test_there_are_as_many_as_promised_and_they_are_bad_enough() -> None:
    assert len(TEXTS) == COUNT
    assert sum(bool(obeyed(text)) for text in TEXTS) > COUNT * 0.8


def checked(text: str, how: str, lines: int) -> None:
    """Each line of a log is whole, and harmless."""
    text.encode()
    written = text.removesuffix("\n").split("\n")
    assert len(written) == lines
    assert obeyed("".join(written)) == []
    if how == "json":
        for line in written:
            assert json.loads(line)["level"] in ("info", "warning", "error")
    else:
        assert all(line[:2] == "20" or line.startswith("    | ") for line in written)


def write_log(how: str, write: Callable[[], None]) -> str:
    stream = io.StringIO()
    configure(stream=stream, json=how == "json", verbosity=10)
    write()
    return stream.getvalue()


@THOUSANDS
@pytest.mark.parametrize("how", FORMATS)
def test_a_field_a_key_of_a_field_and_a_message(how: str) -> None:
    log = get_logger("t")

    def write() -> None:
        for text in TEXTS:
            log.info("named", pod=text, labels={text: [text]}, err=ValueError(text))
            log.info(text)

    checked(write_log(how, write), how, 2 * COUNT)


@pytest.mark.parametrize("how", FORMATS)
def test_what_libraries_log(how: str) -> None:
    library = logging.getLogger("some.library")

    def write() -> None:
        for text in TEXTS:
            library.info("about %s", text)

    checked(write_log(how, write), how, COUNT)


@THOUSANDS
@pytest.mark.parametrize("how", FORMATS)
def test_a_traceback(how: str) -> None:
    """In text its lines are marked; whatever else is in it, no line begins like an event."""
    stream = io.StringIO()
    configure(stream=stream, json=how == "json")
    log = get_logger("t")
    for text in TEXTS:
        storms.reset()  # so that each is written
        stream.seek(0)
        stream.truncate()
        log.error("failed", pod=text, exc_info=RuntimeError(text))
        written = stream.getvalue()
        checked(written, how, written.count("\n"))
        first, *rest = written.removesuffix("\n").split("\n")
        assert "failed" in first
        assert all(line.startswith("    | ") for line in rest)
        assert how == "text" or not rest


@THOUSANDS
@pytest.mark.parametrize("how", FORMATS)
def test_the_lines_about_a_pod(how: str) -> None:
    log, pod, queued = PodLog(), make_pod("p"), QueuedPodInfo(pod_info("q"))

    def write() -> None:
        for text in TEXTS:
            pod.metadata.name = pod.metadata.uid = text
            pod.spec = msgspec.structs.replace(pod.spec, scheduler_name=text)
            pod.status = msgspec.structs.replace(pod.status, nominated_node_name=text)
            queued.pod.pod.metadata.name = text
            log.added(PodAdded(pod))
            log.bind_in_doubt(BindingInDoubt(pod, text, text))
            log.not_scheduled(
                queued, Failure(text, UNSCHEDULABLE, frozenset({"Fit"})), ("backoff", queued), 0.0, is_news=True
            )

    checked(write_log(how, write), how, 3 * COUNT)


def test_an_event() -> None:
    for text in TEXTS:
        reference = EventReference(kind="Pod", namespace="default", name="p", uid="u")
        work = _Occurrence(reference, "Warning", "FailedScheduling", "Scheduling", text, "kscheduler", None, 1.0)
        body = event_body(work, "default", "p.1", "kscheduler-host")
        note = json.loads(body)["note"]
        assert obeyed(note) == []
        assert len(note.encode()) <= LONGEST_NOTE_BYTES


def test_what_the_probes_say() -> None:
    for first in range(0, COUNT, 50):
        texts = TEXTS[first : first + 50]
        health = Health("readyz", {"check": lambda texts=texts: texts[0]}, lambda texts=texts: texts)  # type: ignore[misc]
        _, report = health.report(verbose=True)
        lines = report.removesuffix("\n").split("\n")
        assert len(lines) == 2 + len(texts) + 1
        assert obeyed("".join(lines)) == []
        report.encode(errors="strict")
        found = health.report_one("check")
        assert found is not None
        assert found[1].count("\n") == 1


def test_an_answer_about_pods_that_wait() -> None:
    """What is no text at all cannot come out of the API server's JSON."""
    for text in TEXTS:
        name = text.encode(errors="ignore").decode()
        held = PodAtPermit(pod_info("p"), name, {"Gang": 1.0}, {"Gang": 1.0})
        held.pod.pod.metadata.name = name
        body = msgspec.json.encode({"name": held.pod.name, "node": held.node_name})
        assert b"\n" not in body
        assert json.loads(body) == {"name": name, "node": name}


def test_the_reason_of_a_request_that_is_no_http() -> None:
    for text in TEXTS:
        assert obeyed(short_line(text, 120)) == []


def test_an_explanation_on_a_terminal_and_as_json() -> None:
    """Names, labels, taints, claims: a scenario with fifty of the texts at a time, as far as JSON can carry them."""
    texts = [text[:400].encode(errors="ignore").decode() or "x" for text in TEXTS]
    for first in range(0, COUNT, 50):
        some_texts = iter(texts[first : first + 50])
        nodes = []
        for number in range(8):
            taint = {"key": next(some_texts), "value": next(some_texts), "effect": "NoSchedule"}
            node = node_tree(f"{number}{next(some_texts)}", taints=[taint] if number % 2 else [])
            node["metadata"]["labels"] = {"kubernetes.io/hostname": next(some_texts), next(some_texts): "x"}
            nodes.append(node)
        pod = pod_tree(next(some_texts), cpu="100m")
        pod["metadata"]["namespace"] = next(some_texts)
        pod["spec"]["nodeSelector"] = {} if first % 100 else {"zone": next(some_texts)}
        claim = {"claimName": next(some_texts)}
        pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": claim}] if first % 150 == 0 else []
        decision = decide(parse_scenario(scenario_line(pod, nodes=nodes, name=next(some_texts)), "test"))
        for width in (60, 100):
            text = decision_text(decision, Style(colour=False, width=width))
            assert obeyed(text.replace("\n", "")) == []
            text.encode()
        tree = decision_tree(decision)
        line = json_line(tree)
        assert obeyed(line) == []
        assert json.loads(line) == json.loads(msgspec.json.encode(tree))


def test_names_in_a_list_on_a_terminal() -> None:
    for text in TEXTS:
        assert obeyed(printable(text)) == []
    assert obeyed("".join(some(TEXTS, COUNT))) == []


def test_a_refused_configuration_has_a_line_for_each_mistake() -> None:
    for text in sorted(TEXTS, key=len)[:-10]:
        error = ConfigError([Problem(text, text), Problem("", text)], "file.yaml")
        assert obeyed(str(error).replace("\n", "", 1)) == []


@THOUSANDS
def test_errors_that_plugins_and_webhooks_word() -> None:
    """They become a line at every level, too."""
    stream = io.StringIO()
    configure(stream=stream, json=True)
    log = PodLog()
    for text in TEXTS[:1000]:
        queued = QueuedPodInfo(pod_info("q"))
        log.not_scheduled(queued, Failure(text, SCHEDULER_ERROR), None, 0.0, is_news=True)
    for line in stream.getvalue().removesuffix("\n").split("\n"):
        assert json.loads(line)["msg"] == "attempt_failed"
        assert obeyed(line) == []
