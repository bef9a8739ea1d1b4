"""Conversion of whatever files: what comes of it can be used, or it is refused; nothing else happens."""

import pytest
import yaml

from kscheduler.cli.ignored_kube_scheduler_flags import without_meaning
from kscheduler.config.conversion.converting import convert
from kscheduler.config.errors import ConfigError
from kscheduler.config.loader import load_bytes
from tests.cli.test_config_convert import BETA_3, POLICY, VOLCANO
from tests.config.spoilt_trees import spoilt
from tests.effort import example_count

SEEDS = [yaml.safe_load(text) for text in (BETA_3, BETA_3.replace("v1beta3", "v1beta1"), POLICY, VOLCANO)]


def mistakes(data: bytes) -> ConfigError | None:
    try:
        load_bytes(data, "f")
    except ConfigError as failure:
        return failure
    return None


@pytest.mark.parametrize("seed", range(example_count(60)))
def test_a_file_with_anything_anywhere_is_refused_or_becomes_one_that_can_be_used(seed: int) -> None:
    data = spoilt(seed, SEEDS)
    try:
        converted = convert(data, "f", mistakes, without_meaning)
    except ConfigError:
        return  # refused; anything else that is raised fails the test
    assert mistakes(converted.text.encode()) is None
    lines = [note.line for note in converted.notes]
    assert lines == sorted(lines)
    assert max(lines, default=0) <= data.count(b"\n")
