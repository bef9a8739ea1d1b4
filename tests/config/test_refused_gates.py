"""Gates of pod groups that are not built are refused by name: a scheduler that decided without would be wrong."""

import re

import pytest

from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import parse_feature_gates

ON = "GenericWorkload=true"


@pytest.mark.parametrize(
    ("text", "version", "refused"),
    [
        (ON, "1.36", "GenericWorkload"),
        (f"{ON},GangScheduling=true", "1.36", "GangScheduling"),
        (f"{ON},DRAWorkloadResourceClaims=true", "1.37", "DRAWorkloadResourceClaims"),
    ],
)
def test_what_is_not_built_is_refused_by_name(text: str, version: str, refused: str) -> None:
    with pytest.raises(ConfigError, match=f"feature gate {refused} cannot be switched on, it is not built: "):
        parse_feature_gates(text, version=version)


def test_of_the_groups_of_another_version_the_flag_is_named_that_follows_it() -> None:
    with pytest.raises(ConfigError, match=re.escape("as 1.37 and 1.38 have them: add --emulated-version 1.37")):
        parse_feature_gates(ON, version="1.36")


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (ON, "1.37"),
        (f"{ON},TopologyAwareWorkloadScheduling=true,CompositePodGroup=true", "1.37"),
        ("", "1.36"),
        ("GenericWorkload=false", "1.36"),
        ("AllAlpha=true,GenericWorkload=true", "1.37"),
    ],
)
def test_all_else_is_accepted(text: str, version: str) -> None:
    """`AllAlpha` asks for nothing in particular: it gives a warning."""
    parse_feature_gates(text, version=version)
