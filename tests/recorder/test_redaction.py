"""A recording without names: nobody reads one in it, and every decision comes out again all the same."""

import argparse
import json
import re
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.devices import ResourceClaimTemplate
from kscheduler.api.kinds import KINDS
from kscheduler.api.meta import CustomObject
from kscheduler.api.selectors import is_label_value, parse_int64
from kscheduler.cli import main
from kscheduler.cli.record_flags import RedactionKeyError, add_record_flags, record_settings
from kscheduler.config.loader import load_bytes
from kscheduler.recorder.flight_recorder import RecordSettings
from kscheduler.recorder.redacted_objects import STAY, STAY_OF, ObjectRedaction, Pseudonyms, numbers_in
from kscheduler.recorder.replaying.replay import _OF_GROUPS
from tests.recorder.recorded import record, replayed, written

KEY = b"0123456789abcdef0123456789abcdef"
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
ONLY_SSD = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: kscheduler
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]
"""
NAMES = Pseudonyms(KEY)
TEXTS = st.text(st.sampled_from("ab1-_/.: 0é"), max_size=12)


@pytest.mark.parametrize("seed", range(2))
def test_every_decision_of_a_redacted_recording_comes_out_as_recorded(seed: int, tmp_path: Path) -> None:
    cluster = record(tmp_path, 250, seed, segment_bytes=3000, redaction_key=KEY)
    assert cluster.recorder is not None
    for each_segment in (False, True):
        report = replayed(tmp_path, each_segment=each_segment).report
        assert report.differences == []
        assert report.is_equal
        assert report.wrong_digests == 0 < report.digests
    assert report.decisions == cluster.recorder.statistics().decisions > 100


def test_no_name_is_in_the_file(tmp_path: Path) -> None:
    cluster = record(tmp_path, 250, 1, segment_bytes=3000, redaction_key=KEY)
    data = written(tmp_path)
    assert len(data) > 10_000
    names = re.findall(rb"(?<!uid-)node-\d+|(?:web|db|job|cache)-\d+|north|south|west|default/|webhook", data)
    assert names == []
    assert NAMES.text("node-1").encode() in data
    assert cluster.pods()


def test_two_keys_have_no_pseudonym_in_common() -> None:
    other = Pseudonyms(b"another key, which is long enough")
    assert NAMES.text("web") == Pseudonyms(KEY).text("web") != other.text("web")


# --- pseudonyms -------------------------------------------------------------------------------------------------------


@given(TEXTS, TEXTS)
def test_names_are_equal_if_and_only_if_their_pseudonyms_are(one: str, other: str) -> None:
    assert (NAMES.text(one) == NAMES.text(other)) == (one == other)
    assert (NAMES.disk(one) == NAMES.disk(other)) == (one == other)
    assert (NAMES.label(one) == NAMES.label(other)) == (one == other)


@given(TEXTS, TEXTS)
def test_a_key_is_made_of_the_parts_of_a_key(namespace: str, name: str) -> None:
    assert NAMES.text(f"{namespace}/{name}") == f"{NAMES.text(namespace)}/{NAMES.text(name)}"


@given(TEXTS)
def test_what_selectors_parse_is_parsed_alike(text: str) -> None:
    assert parse_int64(NAMES.label(text)) == parse_int64(text)
    assert is_label_value(NAMES.label(text)) == is_label_value(text)


@given(st.integers())
def test_a_number_stays(number: int) -> None:
    assert NAMES.text(str(number)) == str(number)


def test_zones_of_a_volume_and_the_region_of_a_google_zone_can_be_reported_apart() -> None:
    text = NAMES.text
    assert text("a__b") == f"{text('a')}__{text('b')}"
    one, other = text("europe-west4-a").split("-"), text("europe-west4-b").split("-")
    assert len(one) == 3
    assert one[:2] == other[:2]
    assert one[2] != other[2]


def test_an_old_volume_keeps_the_shape_of_its_name() -> None:
    assert re.fullmatch(r"aws://h\w+/vol-h\w+", NAMES.disk("aws://north/vol-1"))
    assert NAMES.disk("aws://north/vol-1").rpartition("/")[2] == NAMES.disk("vol-1")


def test_an_image_is_the_same_with_its_usual_tag() -> None:
    assert NAMES.image("shop/web") == NAMES.image("shop/web:latest") != NAMES.image("shop/web:2")


def test_of_a_message_its_numbers_are_left() -> None:
    message = (
        '0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint {team-7: "4"}. preemption: 0/5'
    )
    assert numbers_in(message) == "0/5 0/5 2 3 4"


# --- fields -----------------------------------------------------------------------------------------------------------

CANARY = "canary"


@pytest.mark.parametrize(
    "of",
    [*(kind.type for kind in (*KINDS.values(), *_OF_GROUPS)), CustomObject, ResourceClaimTemplate],
    ids=lambda of: of.__name__,
)
def test_a_string_of_any_kind_is_hashed_unless_it_is_listed(of: type) -> None:
    text = msgspec.json.encode(ObjectRedaction(NAMES).redacted(filled(of)))
    found = {key.decode() for key in re.findall(rb'"(\w+)":"canary', text)}
    assert found <= ({"name"} if of.__name__ in ("CSIDriver", "DeviceClass") else set())
    assert b"canary" not in text or found


def filled(of: type) -> Any:
    """A struct whose every string that may not stay is a name."""
    fields = {}
    for name, hint in get_type_hints(of).items():
        if name in of.__struct_fields__:  # type: ignore[attr-defined]
            stays = name in STAY or (of, name) in STAY_OF
            fields[name] = _value(hint, "word" if stays else f"{CANARY}-{name}")
    return of(**fields)


def _value(hint: Any, text: str) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return {"some": [text]}
    if hint is str:
        return text
    if origin is tuple:
        return (_value(inner[0], text),)
    if origin is dict:
        return {"key": _value(inner[1], text)}
    if inner:  # `X | None`, or a quantity
        return 3 if int in inner else _value(inner[0], text)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return filled(hint)
    return hint(1)


def test_label_values_in_the_configuration_are_those_of_the_redacted_nodes(tmp_path: Path) -> None:
    cluster = record(tmp_path, 60, 3, config=load_bytes(ONLY_SSD.encode(), "test"), redaction_key=KEY)
    report = replayed(tmp_path).report
    assert report.differences == []
    assert report.decisions > 10
    assert cluster.recorder is not None


# --- the command line -------------------------------------------------------------------------------------------------


def settings(*flags: str) -> RecordSettings:
    parser = argparse.ArgumentParser()
    add_record_flags(parser)
    found = record_settings(parser.parse_args(["--record=there", *flags]))
    assert found is not None
    return found


def test_without_a_flag_nothing_is_hashed() -> None:
    assert settings().redaction_key == b""


def test_the_key_of_a_process_is_its_own() -> None:
    keys = {settings("--record-redact").redaction_key for _ in range(2)}
    assert [len(key) for key in keys] == [32, 32]


def test_the_key_of_a_file_is_the_same_each_time(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(KEY + b"\n")
    assert settings(f"--record-redact-key={tmp_path / 'key'}").redaction_key == KEY


@pytest.mark.parametrize("flag", ["--record-redact", "--record-redact-key=key"])
def test_who_wants_no_names_in_a_recording_is_reported_that_nothing_is_recorded(flag: str) -> None:
    parser = argparse.ArgumentParser()
    add_record_flags(parser)
    with pytest.raises(RedactionKeyError, match=f"^{flag.partition('=')[0]}: needs --record, "):
        record_settings(parser.parse_args([flag]))


@pytest.mark.parametrize("content", [None, b"short\n"], ids=["not there", "too short"])
def test_a_key_that_cannot_be_used_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RedactionKeyError, match=f"--record-redact-key: {path}"):
        settings(f"--record-redact-key={path}")


def test_the_answer_says_that_names_are_hashed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path, 60, 2, redaction_key=KEY)
    assert main(["replay", str(tmp_path)]) == 0
    assert "names are hashed in this recording" in capsys.readouterr().out
    assert main(["replay", str(tmp_path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["redacted"] is True
