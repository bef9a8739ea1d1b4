"""What pages say of the followed versions of Kubernetes: docs/compatibility.md, and what others repeat of it."""

import re
from pathlib import Path
from typing import Final

import pytest
import yaml

from kscheduler.api import releases
from kscheduler.api.machinery.resources import LATER
from kscheduler.api.releases import BEHAVIOURS, NEWEST_SERVER, OLDEST_SERVER
from kscheduler.config.errors import ConfigError
from kscheduler.config.feature_gates import (
    HONOURED,
    NOT_BUILT,
    READ_BY_SCHEDULERS,
    gates_of,
    parse_feature_gates,
)

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
PAGE: Final = (DOCS / "compatibility.md").read_text()
*_EARLIER, _NEWEST = BEHAVIOURS
NAMED: Final = f"{', '.join(_EARLIER)} or {_NEWEST}"
AND: Final = f"{', '.join(_EARLIER)} and {_NEWEST}"
# A number of a difference: D1, DR12, Q3, M2, C1.
NUMBER: Final = r"(?:D|DR|Q|M|C)\d+"


def table(heading: str) -> dict[str, str]:
    """The rows of the table behind a line: the first cell, and the rest."""
    rows = PAGE.partition(heading)[2].partition("\n|")[2].partition("\n\n")[0].splitlines()
    cells = (row.strip("| ").partition(" | ") for row in rows[1:] if not row.startswith("|---"))
    return {first.strip(): rest.strip() for first, _, rest in cells}


def named(text: str) -> set[str]:
    """The gates that a text names."""
    known = {name for version in BEHAVIOURS for name in gates_of(version)}
    return {name for name in re.findall(r"`([A-Z]\w+)`", text) if name in known}


GATES: Final = table("What is behind gates that are off by default:")


def rows_that(answer: str) -> str:
    """The first cells of the rows whose answer begins so."""
    return "\n".join(first for first, rest in GATES.items() if rest.startswith(answer))


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("README.md", f"({NAMED}, by your cluster's version)"),
        ("README.md", f"It runs on Kubernetes {OLDEST_SERVER} to {NEWEST_SERVER}"),
        ("docs/compatibility.md", f"decides as kube-scheduler {NAMED} does"),
        ("docs/compatibility.md", f"with its default, lock and dependencies in {AND}"),
        ("docs/differences.md", f"kube-scheduler {NAMED}, whichever version is followed"),
        ("docs/operations.md", f"Of what {AND} serve these are missing"),
        ("docs/extenders.md", f"the same in {AND}"),
        ("docs/migration.md", f"grant all that is needed, on {AND}"),
    ],
)
def test_pages_name_all_followed_versions(page: str, text: str) -> None:
    assert text in (ROOT / page).read_text().replace("\n", " ")


# --- differences ------------------------------------------------------------------------------------------------------


def numbers_in_the_table_of_behaviours() -> dict[str, set[str]]:
    """By version the numbers that docstrings of `Behaviours` cite: `D1.` of 1.37, `(1.38: D1)` of later ones."""
    source = Path(releases.__file__).read_text()
    found: dict[str, set[str]] = {"1.37": set()}
    for cited in re.findall(rf'"""({NUMBER}(?:, {NUMBER})*)\. ', source):
        found["1.37"] |= {*re.findall(NUMBER, cited)}
    for version, cited in re.findall(r"\((1\.\d+): ([^)]*)\)", source):
        found.setdefault(version, set()).update(re.findall(rf"{NUMBER}|\d(?:\.\d)?", cited))
    return found


@pytest.mark.parametrize("version", [*BEHAVIOURS][1:])
def test_each_difference_that_the_table_of_behaviours_cites_has_a_row(version: str) -> None:
    heading = f"What {version} does differently with default settings"
    # The tables of devices and pod groups follow that of single pods.
    part = PAGE.partition(heading)[2].partition("\nWhat ")[0]
    rows = {number for row in re.findall(r"^\| (.*?) \|", part, re.MULTILINE) for number in cited_first(row)}
    unnumbered = {"1.6"} if "metrics of pod groups get" in part else set()
    assert numbers_in_the_table_of_behaviours()[version] - unnumbered <= rows


def cited_first(row: str) -> list[str]:
    """The numbers with which a row begins."""
    match = re.match(rf"(?:(?:{NUMBER}|\d(?:\.\d)?)(?:, | (?=[^,])))+", row)
    return re.findall(rf"{NUMBER}|\d(?:\.\d)?", match[0]) if match else []


# --- gates ------------------------------------------------------------------------------------------------------------


def test_gates_that_the_page_calls_refused_are_those_that_are_not_built() -> None:
    refused = named(rows_that("refused at the start by name"))
    of_groups = {name for name, why in NOT_BUILT["1.36"].items() if why.startswith("pod groups")}
    assert refused == {name for reasons in NOT_BUILT.values() for name in reasons} - of_groups
    for name in of_groups:
        assert any(name in named(first) | named(rest) for first, rest in GATES.items() if "refused in 1.36" in rest)
    for version in BEHAVIOURS:
        gates = parse_feature_gates("AllAlpha=true,AllBeta=true", version=version)
        assert not any(gates.enabled(name) for name in refused if name in gates_of(version))


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_gates_that_the_page_calls_accepted_have_no_effect_but_a_warning(version: str) -> None:
    accepted = named(rows_that("accepted with a warning"))
    assert len(accepted) >= 5
    for name in accepted & {*gates_of(version)}:
        is_on = gates_of(version)[name].default
        (warning,) = parse_feature_gates(f"{name}={not is_on}", version=version).warnings
        assert name in warning


def test_gates_that_the_page_calls_built_are_honoured() -> None:
    assert named(rows_that("built")) <= HONOURED


@pytest.mark.parametrize("version", BEHAVIOURS)
def test_every_gate_of_schedulers_that_is_off_by_default_is_on_the_page(version: str) -> None:
    off = {name for name, gate in gates_of(version).items() if name in READ_BY_SCHEDULERS and not gate.default}
    on_the_page = named("\n".join((*GATES, *GATES.values())))
    assert off <= on_the_page


@pytest.mark.parametrize("version", [*BEHAVIOURS][1:])
def test_gates_that_the_page_says_a_version_does_not_have_are_unknown_there(version: str) -> None:
    row = rows_that("an unknown gate")
    assert {name for each in BEHAVIOURS for name in gates_of(each)} >= named(row)
    gone = re.findall(r"\(?([^()]*?) in (1\.\d+)", row.partition("(")[2])
    listed = {of: named(names) for names, of in gone}
    assert listed[version]
    for name in listed[version]:
        assert name not in gates_of(version)
        with pytest.raises(ConfigError, match="unrecognized feature gate"):
            parse_feature_gates(f"{name}=true", version=version)


# --- pod groups -------------------------------------------------------------------------------------------------------

GROUPS: Final = (DOCS / "pod-groups.md").read_text()


def test_composite_groups_on_the_page_are_of_the_version_of_the_api_that_each_version_follows() -> None:
    *earlier, newest = (each for each in BEHAVIOURS.values() if "CompositePodGroup" in gates_of(each.version))
    manifests = [block for block in re.findall(r"```yaml\n(.*?)```", GROUPS, re.DOTALL) if "CompositePodGroup" in block]
    (composite, *others) = (one for block in manifests for one in yaml.safe_load_all(block))
    assert composite["apiVersion"] == f"scheduling.k8s.io/{newest.composite_version}"
    served = {(kind.kind, kind.version) for kind in LATER if not kind.until}
    for one in (composite, *others):
        assert (one["kind"], one["apiVersion"].partition("/")[2]) in served
    for each in earlier:
        assert f"apiVersion: {composite['apiVersion']}   # {each.composite_version} on {each.version}\n" in manifests[0]
        assert f"`scheduling.k8s.io/{each.composite_version}` where {each.version} is followed" in GROUPS
