"""Prints the table; with `later` the types that only a later release has, from its modules (`releases`)."""

import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from kscheduler.api.machinery.resources import LATER, RESOURCES, ServedResource
from kscheduler.api.typed import api_types
from kscheduler.api.typed.api_types import TypeTable
from tests.controlplane.binaries import cache_folder
from tests.controlplane.releases import pinned, substitutes
from tests.controlplane.releases.pinned import Release
from tests.controlplane.toolchain import find_go, needed_by, run_go

COMPILE_SECONDS = 1800.0
USUAL_TABLE = Path(api_types.__file__).with_name("api_types.txt")
ONLY_IN_REQUESTS = (
    "authentication.k8s.io/v1=TokenRequest",
    "autoscaling/v1=Scale",
    "policy/v1=Eviction",
    "v1=PodTemplate",
    "apps/v1=ControllerRevision",
    "batch/v1=CronJob",
    "autoscaling/v2=HorizontalPodAutoscaler",
)


# Whose modules have the types of the later kinds.
LATER_RELEASE = "1.37.2"


def main() -> None:
    usual = kinds_of(RESOURCES) | set(ONLY_IN_REQUESTS)
    if sys.argv[1:] != ["later"]:
        sys.stdout.write(table_of(usual, pinned.find(pinned.DEFAULT)))
        return
    known = TypeTable(USUAL_TABLE.read_text())
    table = table_of(kinds_of(LATER), pinned.find(LATER_RELEASE))
    sys.stdout.write("".join(text for name, text in sections(table).items() if name not in known))


def kinds_of(resources: Iterable[ServedResource]) -> set[str]:
    """As the program in Go takes them."""
    typed = (resource for resource in resources if not resource.is_plain)
    return {f"{resource.group_version}={resource.kind}" for resource in typed}


def sections(table: str) -> dict[str, str]:
    """The lines of each type."""
    found: dict[str, str] = {}
    name = ""
    for line in table.splitlines():
        name = name if line.startswith(" ") else line.partition(" = ")[0]
        found[name] = f"{found.get(name, '')}{line}\n"
    return found


def table_of(kinds: Iterable[str], release: Release) -> str:
    """Run the program with the modules of this release. Raises `GoError`."""
    go = find_go(cache_folder(), needed_by(release.module_file))
    module_file = substitutes.module_file(release, release.files, go, cache_folder())
    with tempfile.TemporaryDirectory(prefix="kscheduler-typetable-") as folder:
        for suffix in (".mod", ".sum"):
            shutil.copy(module_file.with_suffix(suffix), Path(folder, f"go{suffix}"))
        shutil.copy(Path(__file__).with_name("main.go.txt"), Path(folder, "main.go"))
        command = ("run", "-mod=mod", "-trimpath", ".", *sorted(kinds))
        return run_go(go, *command, folder=Path(folder), seconds=COMPILE_SECONDS)


if __name__ == "__main__":
    main()
