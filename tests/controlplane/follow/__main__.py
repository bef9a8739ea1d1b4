"""The steps, one after the other: what fails is part of the report, and keeps no other step from being taken."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kscheduler.api.releases import BEHAVIOURS
from tests.controlplane import binaries
from tests.controlplane.follow import ours, sources, upstream
from tests.controlplane.follow.comparison import Differences, Listing, Rows, compare, without_changes
from tests.controlplane.releases import pinned
from tests.controlplane.releases.pinned import NEWEST_GO, Release
from tests.controlplane.toolchain import find_go

# Gates under which kube-scheduler has more plugins and settings by default.
OF_GROUPS: Final = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
PAGE: Final = "docs/following-kubernetes.md"


@dataclass(frozen=True)
class Step:
    """What one step has found."""

    title: str
    seconds: float
    differences: Differences | Rows | None = None
    problem: str = ""

    def lines(self) -> Iterator[str]:
        yield f"\n## {self.title} ({self.seconds:.0f} s)\n"
        if self.problem:
            yield f"**Failed**: {self.problem}"
        elif self.differences is not None:
            yield from self.differences.lines()


@dataclass
class Following:
    """One run."""

    release: Release
    column: str
    """The followed version that the release is compared with."""
    before: Release | None
    """The release whose source it is compared with."""
    show: Callable[[str], None]
    steps: list[Step] = field(default_factory=list)

    def take(self, title: str, act: Callable[[], Differences | Rows | None]) -> None:
        """Take a step, whatever becomes of it."""
        began = time.monotonic()
        differences, problem = None, ""
        try:
            differences = act()
        except Exception as error:  # noqa: BLE001  the report says so, and the other steps are taken
            problem = f"{type(error).__name__}: {error}"
        self.steps.append(Step(title, time.monotonic() - began, differences, problem))
        self.show(f"{title}: {problem or (len(differences) if differences is not None else 'done')}")

    def run(self) -> None:
        self.take("Pinned", self._pin)
        self.take("Built", self._build)
        self._take_lists()
        self._take_binary()
        self._take_sources()

    def _pin(self) -> None:
        if self.release not in pinned.all_pinned():
            pinned.pin(self.release, find_go(binaries.cache_folder(), NEWEST_GO))

    def _build(self) -> None:
        self._kube_scheduler()

    def _kube_scheduler(self) -> Path:
        return binaries.build(self.release) / "kube-scheduler"

    def _take_lists(self) -> None:
        release, column = self.release, self.column
        self.take("Feature gates", lambda: compare(upstream.gates(release), ours.gates(column)))
        self.take("Extension points of plugins", lambda: compare(upstream.points(release), ours.points(column)))
        self.take("Events that plugins register", lambda: compare(upstream.events(release), ours.events(column)))

    def _take_binary(self) -> None:
        self.take("Flags", lambda: compare(upstream.flags(self._kube_scheduler()), ours.flags()))
        self.take("Page of metrics", lambda: _unreported(upstream.page(self._kube_scheduler())))
        for title, gates in (("", ""), (" with pod groups", OF_GROUPS)):
            self.take(
                f"Default configuration{title}",
                lambda gates=gates: compare(  # type: ignore[misc]  # mypy wants no default here
                    upstream.configuration(self._kube_scheduler(), gates), ours.configuration(self.column, gates)
                ),
            )

    def _take_sources(self) -> None:
        release, before = self.release, self.before
        self.take("Series of the scheduler", lambda: _counted(sources.metrics(release), ours.metrics(self.column)))
        if before is None:
            return
        beside: dict[str, Callable[[], Differences | Rows]] = {
            "Gates that the scheduler reads": lambda: compare(sources.gates_read(release), sources.gates_read(before)),
            "Types of the API": lambda: compare(upstream.api_types(release), upstream.api_types(before)),
            "Permissions": lambda: compare(upstream.permissions(release), upstream.permissions(before)),
            "Modules": lambda: compare(sources.modules(release), sources.modules(before)),
            "Texts": lambda: without_changes(compare(sources.texts(release), sources.texts(before))),
            "Files to read": lambda: Rows(sources.changed_files(before, release)),
        }
        for title, act in beside.items():
            self.take(f"{title}, beside {before}", act)

    def report(self) -> str:
        """All of it, in Markdown."""
        taken = sum(step.seconds for step in self.steps)
        return "\n".join(
            (
                f"# Kubernetes {self.release}, beside what kscheduler knows of {self.column}\n",
                f"Made by `make follow VERSION={self.release}` in {taken / 60:.1f} minutes.",
                f"What a program cannot see, and where each difference belongs: {PAGE}.\n",
                "| step | seconds | differences |\n|---|---|---|",
                *(f"| {step.title} | {step.seconds:.0f} | {_count(step)} |" for step in self.steps),
                *(line for step in self.steps if step.problem or step.differences is not None for line in step.lines()),
            )
        )


def _count(step: Step) -> str:
    return "failed" if step.problem else "" if step.differences is None else str(len(step.differences))


def _unreported(page: Listing) -> Differences:
    """Series that are neither served nor reported as ones that are not."""
    return compare({name: kind for name, kind in page.items() if not ours.is_served_or_reported(name)}, {})


def _counted(theirs: Listing, known: Listing) -> Differences:
    """Of series that are not counted here the names are compared alone."""
    return compare(theirs, {name: text or theirs.get(name, "") for name, text in known.items()})


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make follow", description="What a release has that kscheduler does not.")
    parser.add_argument("release", help="1.38.0, or 1.38.0-rc.0")
    against = "the followed version to compare with; by default its own, or else the newest"
    parser.add_argument("--against", choices=BEHAVIOURS, help=against)
    beside = "the pinned release whose source is compared, such as an earlier beta; by default of the version before"
    parser.add_argument("--beside", help=beside)
    parser.add_argument("--report", type=Path, help="the file to write; otherwise standard output")
    given = parser.parse_args(arguments)
    release = pinned.parse(given.release)
    column = given.against or ours.column_for(release.version)
    before = pinned.find(given.beside) if given.beside else pinned.before(release)
    following = Following(release, column, before, lambda text: print(text, file=sys.stderr, flush=True))  # noqa: T201
    following.run()
    if given.report is None:
        print(following.report())  # noqa: T201
    else:
        given.report.write_text(following.report() + "\n")
    return 1 if any(step.problem for step in following.steps) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
