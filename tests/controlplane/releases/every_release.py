"""`make e2e-versions`: the end-to-end suite on a real API server of each release, and a table of what came out.

A release that cannot be built, or on which a test fails, does not keep the others from being tried; the exit code then
is 1. Each run is a process of its own (`KUBERNETES_VERSION` chooses its programs, `KUBERNETES_UPGRADED_FROM` those of
the minor version before, from which one scenario upgrades a cluster to it), whose output and results lie in
`build/e2e-versions`. Left out are the image, which is the same for all of them, and by markers comparisons with what
was recorded from one release (`kubernetes_1_36`), or with a kube-scheduler that is another release's.
"""

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.controlplane import binaries
from tests.controlplane.releases import pinned
from tests.controlplane.releases.pinned import Release, UnknownReleaseError
from tests.controlplane.toolchain import ToolchainError

ROOT: Final = Path(__file__).parents[3]
RESULTS: Final = ROOT / "build" / "e2e-versions"
SUITE: Final = ("tests/e2e", "--server", "real", "--ignore", "tests/e2e/image")
SUITE_SECONDS: Final = 3600.0
HEADER: Final = "| Kubernetes | passed | skipped | failed | minutes | |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Outcome:
    """What became of the suite on one release."""

    release: Release
    passed: int = 0
    skipped: int = 0
    failed: tuple[str, ...] = ()
    """The names of tests that failed, or whose fixtures did."""
    problem: str = ""
    """Why there are no results."""
    seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """A run in which nothing passed has shown nothing."""
        return bool(self.passed) and not self.failed and not self.problem

    def row(self) -> str:
        remark = self.problem or ("" if self.is_good else ", ".join(self.failed) or "nothing has passed")
        numbers = f"{self.passed} | {self.skipped} | {len(self.failed)} | {self.seconds / 60:.1f}"
        return f"| {self.release} | {numbers} | {remark} |"


def read_results(release: Release, text: str, seconds: float) -> Outcome:
    """The outcome from pytest's report in JUnit's format. Raises ParseError."""
    passed = skipped = 0
    failed: dict[str, None] = {}  # a test may fail, and its fixtures once more when they end
    for case in ET.fromstring(text).iter("testcase"):  # pytest wrote it a moment ago
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        if case.find("failure") is not None or case.find("error") is not None:
            failed[name] = None
        elif case.find("skipped") is not None:
            skipped += 1
        else:
            passed += 1
    return Outcome(release, passed, skipped, tuple(failed), seconds=seconds)


def try_release(release: Release, options: Sequence[str]) -> Outcome:
    """Builds the release and runs the suite on it; problems are part of the outcome."""
    before = pinned.before(release)
    try:
        for one in filter(None, (before, release)):
            binaries.build(one)
    except (binaries.BuildError, ToolchainError, OSError, subprocess.SubprocessError) as error:
        return Outcome(release, problem=f"not built: {error}")
    report, output = RESULTS / f"{release}.xml", RESULTS / f"{release}.txt"
    report.unlink(missing_ok=True)
    # KUBEBUILDER_ASSETS would put programs of some other release in the place of those that were built.
    environment = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    environment[pinned.VARIABLE] = str(release)
    if before:
        environment[pinned.UPGRADED_FROM] = str(before)
    command = [sys.executable, "-m", "pytest", *SUITE, f"--junitxml={report}", *options]
    began = time.monotonic()
    with output.open("w") as handle:
        try:
            ended = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdout=handle,
                stderr=subprocess.STDOUT,
                timeout=SUITE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(release, problem=f"cut off after {SUITE_SECONDS / 60:.0f} minutes: {output}")
    if not report.is_file():
        return Outcome(release, problem=f"pytest ended with {ended.returncode} and without results: {output}")
    return read_results(release, report.read_text(), time.monotonic() - began)


def try_all(
    chosen: Iterable[Release], attempt: Callable[[Release], Outcome], show: Callable[[str], None]
) -> Sequence[Outcome]:
    """One release after the other, whatever becomes of each; shows a row when it is done."""
    show(HEADER)
    outcomes = []
    for release in chosen:
        outcomes.append(attempt(release))
        show(outcomes[-1].row())
    return outcomes


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make e2e-versions", description="The end-to-end suite on several releases.")
    parser.add_argument("release", nargs="*", help=f"of {', '.join(map(str, pinned.all_pinned()))}; by default all")
    named, options = parser.parse_known_args(arguments)
    try:
        chosen = [pinned.find(name) for name in named.release] or pinned.all_pinned()
    except UnknownReleaseError as error:
        parser.error(str(error))
    RESULTS.mkdir(parents=True, exist_ok=True)
    outcomes = try_all(chosen, lambda release: try_release(release, options), lambda text: print(text, flush=True))  # noqa: T201
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
