"""The judge himself: an invented audit log in which each crime happens once."""

import json
from pathlib import Path

import pytest

from tests.e2e.election.audit_log import AuditLog, Request, bound_twice, holders, leader, writes_by_others

LEASE = "ns/x"


def lease(at: float, source: str, holder: str) -> Request:
    return Request(at, at, source, "update", "leases", LEASE, holder)


def binding(at: float, source: str, name: str = "g/p", answered: float | None = None) -> Request:
    return Request(at, answered or at, source, "create", "pods/binding", name)


HANDOVER = [lease(1.0, "a", "A"), lease(3.0, "a", "A"), lease(10.0, "b", "B"), lease(12.0, "b", "B")]


def test_the_holders_are_the_changes_only() -> None:
    assert [one.holder for one in holders(HANDOVER, LEASE)] == ["A", "B"]
    assert leader(HANDOVER, LEASE) == "b"
    assert leader([*HANDOVER, lease(13.0, "b", "")], LEASE) == ""
    assert leader(HANDOVER, "ns/other") == ""


@pytest.mark.parametrize(
    ("write", "is_fault"),
    [
        pytest.param(binding(2.0, "a"), False, id="by the leader"),
        pytest.param(binding(0.5, "a"), True, id="before anybody led"),
        pytest.param(binding(5.0, "b"), True, id="by the follower"),
        pytest.param(binding(11.0, "a"), True, id="by the old leader"),
        pytest.param(binding(9.9, "a", answered=10.1), False, id="under way in the instant of the change"),
        pytest.param(binding(11.0, "b"), False, id="by the new leader"),
        pytest.param(binding(11.0, "kubelet"), False, id="by nobody who competes"),
    ],
)
def test_a_write_belongs_to_whoever_holds_the_lease_when_it_comes_in(write: Request, is_fault: bool) -> None:
    assert bool(writes_by_others([*HANDOVER, write], LEASE, ["a", "b"])) is is_fault


def test_after_a_release_nobody_may_write() -> None:
    requests = [lease(1.0, "a", "A"), lease(2.0, "a", ""), binding(3.0, "a")]
    assert writes_by_others(requests, LEASE, ["a"]) == [
        "create pods/binding g/p by a; the lease was of a (released)",
    ]


def test_a_pod_is_bound_once() -> None:
    requests = [binding(1.0, "a"), binding(2.0, "b"), binding(2.0, "b", "g/q"), binding(3.0, "b", "other/p")]
    assert bound_twice(requests, "g") == ["g/p"]


def event(code: int, **more: object) -> str:
    stamps = {"requestReceivedTimestamp": "2026-11-22T18:00:00.000001Z", "stageTimestamp": "2026-11-22T18:00:00.5Z"}
    reference = {"resource": "pods", "subresource": "binding", "namespace": "g", "name": "p"}
    whole = {**stamps, "objectRef": reference, "verb": "create", "sourceIPs": ["127.0.1.2"]}
    return json.dumps({**whole, "responseStatus": {"code": code}, **more})


def test_the_file_is_read_as_it_grows_whole_lines_only_and_without_refusals(tmp_path: Path) -> None:
    file = tmp_path / "audit.log"
    log = AuditLog(file)
    assert log.requests() == ()
    file.write_text(event(201) + "\n" + event(409) + "\n" + event(201)[:40])
    (first,) = log.requests()
    assert (first.name, first.source, first.is_binding) == ("g/p", "127.0.1.2", True)
    assert first.answered - first.received == pytest.approx(0.499999, abs=1e-6)
    file.write_text(event(201) + "\n" + event(409) + "\n" + event(201) + "\n")
    assert len(log.requests()) == 2
    assert log.first_binding("127.0.1.2", first.received - 1) == first
    assert log.first_binding("127.0.1.3", 0.0) is None
