"""Releases of Kubernetes are pinned whole, chosen by name, and each is tried whatever becomes of the others."""

import re
from pathlib import Path

import pytest
import yaml

from kscheduler.api.releases import NEWEST_SERVER, OLDEST_SERVER, RELEASE
from tests.controlplane import binaries, toolchain
from tests.controlplane.releases import every_release, pinned, substitutes
from tests.controlplane.releases.every_release import Outcome, read_results, try_all
from tests.controlplane.releases.pinned import Release, UnknownReleaseError

EACH = pytest.mark.parametrize("release", pinned.all_pinned(), ids=str)
PAGE = (every_release.ROOT / "docs" / "compatibility.md").read_text()
PUBLISHED = """\
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	go.etcd.io/etcd/api/v3 v3.6.8
	k8s.io/api v0.0.0
)

require (
	go.etcd.io/etcd/server/v3 v3.6.9 // indirect
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kubectl => ./staging/src/k8s.io/kubectl
)
"""


@EACH
def test_every_staging_module_is_replaced_by_the_release_of_kubernetes(release: Release) -> None:
    lines = release.module_file.read_text().splitlines()
    replaced = {line.split()[0]: line.split()[-1] for line in lines if "=>" in line}
    needed = {line.split()[0] for line in lines if line.split()[1:2] == ["v0.0.0"]}
    assert set(replaced.values()) == {release.staging_tag}
    assert needed <= replaced.keys()
    assert f"\tk8s.io/kubernetes {release.tag}" in lines


@EACH
def test_the_checksums_of_every_module_that_is_required_lie_in_the_repository(release: Release) -> None:
    module_file, sums = (path.read_text() for path in release.files)
    required = dict(re.findall(r"^\t(\S+) (v\S+)(?: // indirect)?$", module_file, re.MULTILINE))
    required |= dict(re.findall(r"=> (\S+) (v\S+)$", module_file, re.MULTILINE))
    assert len(required) > 100
    summed = {tuple(line.split()[:2]) for line in sums.splitlines()}
    # of a module of which nothing is built, only the module file is summed, or nothing at all
    missing = {f"{name} {version}" for name, version in required.items() if (name, f"{version}/go.mod") not in summed}
    substituted = substitutes.substitutes_of(release).keys()
    assert not {name for name in missing if not name.startswith("k8s.io/") and name.split()[0] not in substituted}
    assert ("k8s.io/kubernetes", release.tag) in summed


@EACH
def test_the_toolchain_is_new_enough(release: Release) -> None:
    line = re.search(r"^go (\d+)\.(\d+)", release.module_file.read_text(), re.MULTILINE)
    assert line
    assert (int(line[1]), int(line[2])) <= pinned.NEWEST_GO
    wheel = re.search(r"==(\d+)\.(\d+)", toolchain.GO_WHEEL)
    assert wheel
    assert (int(wheel[1]), int(wheel[2])) >= pinned.NEWEST_GO


def test_the_default_release_is_the_one_whose_rules_are_followed() -> None:
    assert str(pinned.find(pinned.DEFAULT)) == RELEASE.removeprefix("v")
    assert pinned.find(pinned.DEFAULT).module_file == pinned.MODULE / "go.mod"


def test_a_release_is_chosen_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(pinned.VARIABLE, raising=False)
    assert str(pinned.chosen()) == pinned.DEFAULT
    monkeypatch.setenv(pinned.VARIABLE, "v1.37.2")
    assert pinned.chosen() == Release(1, 37, 2)


@pytest.mark.parametrize(("name", "word"), [("1.36", "not a release"), ("1.36.99", "add it: python -m"), ("", "not a")])
def test_an_unknown_release_is_refused_with_what_to_do(name: str, word: str) -> None:
    with pytest.raises(UnknownReleaseError, match=word):
        pinned.find(name)


def test_each_release_is_built_into_a_folder_of_its_own() -> None:
    assert len({binaries.source_hash(release) for release in pinned.all_pinned()}) == len(pinned.all_pinned())


def test_a_cluster_is_upgraded_from_the_minor_version_before() -> None:
    oldest, *others = pinned.all_pinned()
    assert pinned.before(oldest) is None
    assert [pinned.before(release) for release in others] == pinned.all_pinned()[:-1]


def test_a_module_file_is_made_from_the_published_one() -> None:
    text = pinned.template(PUBLISHED, Release(1, 38, 2))
    assert "\ngo 1.26.0\n\ngodebug default=go1.26\n" in text
    assert "\tgo.etcd.io/etcd/server/v3 v3.6.9\n" in text
    assert "\tk8s.io/kubernetes v1.38.2\n" in text
    assert "\tk8s.io/api => k8s.io/api v0.38.2\n\tk8s.io/kubectl => k8s.io/kubectl v0.38.2\n" in text


def test_a_published_file_of_another_form_is_refused() -> None:
    with pytest.raises(UnknownReleaseError, match=r"v1\.38\.2"):
        pinned.template("module k8s.io/kubernetes\n", Release(1, 38, 2))


# What `make e2e-versions` makes of a run

REPORT = """\
<testsuites><testsuite>
<testcase classname="tests.e2e.placement.test_binding" name="test_a[real]" />
<testcase classname="tests.e2e.placement.test_binding" name="test_b[real]"><skipped /></testcase>
<testcase classname="tests.e2e.test_storm" name="test_c[real]"><failure /></testcase>
<testcase classname="tests.e2e.test_storm" name="test_c[real]"><error /></testcase>
<testcase classname="tests.e2e.test_storm" name="test_d[real]"><error /></testcase>
</testsuite></testsuites>
"""
GOOD, BAD = Release(1, 36, 3), Release(1, 37, 2)


def test_results_are_read_and_failures_named_once() -> None:
    outcome = read_results(GOOD, REPORT, 90)
    assert (outcome.passed, outcome.skipped, outcome.failed) == (
        1,
        1,
        ("test_storm::test_c[real]", "test_storm::test_d[real]"),
    )
    assert outcome.row() == "| 1.36.3 | 1 | 1 | 2 | 1.5 | test_storm::test_c[real], test_storm::test_d[real] |"


@pytest.mark.parametrize(
    ("outcome", "is_good"),
    [
        (Outcome(GOOD, passed=3, skipped=2), True),
        (Outcome(GOOD, passed=3, failed=("test_a",)), False),
        (Outcome(GOOD, skipped=3), False),
        (Outcome(GOOD, problem="not built: no Go"), False),
    ],
    ids=["passed", "failed", "only-skipped", "not-built"],
)
def test_a_run_is_good_only_if_something_passed_and_nothing_failed(outcome: Outcome, *, is_good: bool) -> None:
    assert outcome.is_good == is_good
    assert outcome.row().endswith("|  |") == is_good


def test_a_release_that_fails_keeps_no_other_from_being_tried() -> None:
    shown: list[str] = []
    made = {BAD: Outcome(BAD, problem="not built: no such module"), GOOD: Outcome(GOOD, passed=1)}
    outcomes = try_all([BAD, GOOD], made.__getitem__, shown.append)
    assert [outcome.release for outcome in outcomes] == [BAD, GOOD]
    assert shown == [every_release.HEADER, *(outcome.row() for outcome in outcomes)]


def test_a_release_that_cannot_be_built_is_an_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Release) -> Path:
        raise binaries.BuildError("go build ended with 1")

    monkeypatch.setattr(binaries, "build", refuse)
    assert every_release.try_release(GOOD, ()).problem == "not built: go build ended with 1"


def test_the_suite_is_run_with_the_release_and_not_with_somebody_elses_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "build", lambda _: tmp_path)
    monkeypatch.setattr(every_release, "RESULTS", tmp_path)
    monkeypatch.setattr(every_release, "SUITE", (str(tmp_path / "test_it.py"), "-p", "no:cacheprovider"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/elsewhere")
    (tmp_path / "test_it.py").write_text(
        "import os\n"
        "def test_release(): assert os.environ['KUBERNETES_VERSION'] == '1.37.2'\n"
        "def test_assets(): assert 'KUBEBUILDER_ASSETS' not in os.environ\n"
        "def test_before(): assert os.environ['KUBERNETES_UPGRADED_FROM'] == '1.36.3'\n"
        "def test_failing(): assert False\n"
    )
    outcome = every_release.try_release(BAD, ())
    assert (outcome.passed, outcome.failed) == (3, ("test_it::test_failing",))
    assert every_release.try_release(BAD, ("--no-such-option",)).problem.startswith("pytest ended with 4")


# docs/compatibility.md


def test_the_page_lists_exactly_the_releases_that_are_run() -> None:
    table = PAGE.partition("\n## API servers\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| (1\.\d+\.\d\S*) \|", table, re.MULTILINE) == [
        str(one) for one in reversed(pinned.all_pinned())
    ]


@EACH
def test_the_page_names_the_etcd_that_each_release_was_run_on(release: Release) -> None:
    etcd = re.search(r"etcd/server/v3 v(\S+)", release.module_file.read_text())
    assert etcd
    assert f"| {release} | {etcd[1]} |" in PAGE


def test_the_range_that_the_service_knows_is_that_of_the_releases() -> None:
    oldest, *_, newest = pinned.all_pinned()
    assert (f"1.{oldest.minor}", f"1.{newest.minor}") == (OLDEST_SERVER, NEWEST_SERVER)
    minors = [release.minor for release in pinned.all_pinned()]
    assert minors == list(range(oldest.minor, newest.minor + 1)), "a release of each minor in between"


def test_the_page_reports_the_range_and_on_what_the_chart_installs() -> None:
    assert f"**{OLDEST_SERVER} to {NEWEST_SERVER}**" in PAGE
    chart = yaml.safe_load((every_release.ROOT / "deploy" / "helm" / "kscheduler" / "Chart.yaml").read_text())
    oldest = chart["kubeVersion"].removeprefix(">=").removesuffix(".0-0")
    assert f"The chart installs on {oldest} and later." in PAGE
