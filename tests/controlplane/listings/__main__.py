"""Tables of Kubernetes' own facts, listed by its Go code: `python -m tests.controlplane.listings gates`.

    gates    every feature gate of kube-scheduler: `kscheduler/config/feature_gates_1_36.json`, one to a line
    points   what each in-tree plugin implements: to be compared with `kscheduler/config/in_tree_plugins.py`
    events   what each registers: `tests/scheduling/upstream_events_1_37.json`, which 1.38 has not changed
    permissions   what kube-scheduler may do on the API server, which nothing here is made of

The programs are compiled against the Go module of the control plane, so its go.mod says which version they list, or the
release that `KUBERNETES_VERSION` names. They are no part of that module: a change here builds no control plane again.
Compiling takes some minutes the first time, and seconds after a build of the control plane.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.controlplane.binaries import cache_folder
from tests.controlplane.releases import pinned, substitutes
from tests.controlplane.releases.pinned import MODULE, Release
from tests.controlplane.toolchain import find_go, needed_by, run_go

# By listing, the files that are compiled together; those that build plugins need options of the release, too.
PROGRAMS: Final[Mapping[str, tuple[str, ...]]] = {
    "gates": ("feature_gates.go",),
    "points": ("plugin_points.go", "in_tree.go"),
    "events": ("registered_events.go", "in_tree.go"),
    "permissions": ("permissions.go",),
}
# The first minor version of which plugins ask the framework for a manager of preemptions.
WITH_PREEMPTION_MANAGER: Final = 38
COMPILE_SECONDS = 1800.0
WHOLE_STAGES = ("AllAlpha", "AllBeta")


def listed(name: str, release: Release) -> Any:
    """What the program prints of this release. Raises `GoError`."""
    files = PROGRAMS[name]
    if "in_tree.go" in files:
        files = (*files, "options.go" if release.minor >= WITH_PREEMPTION_MANAGER else "options_to_1_37.go")
    go = find_go(cache_folder(), needed_by(release.module_file))
    module_file = substitutes.module_file(release, release.files, go, cache_folder())
    programs = [Path(__file__).parent / file for file in files]
    # -trimpath: as the control plane is built, so that its packages need not be compiled again.
    options = ("-mod=readonly", "-trimpath", f"-modfile={module_file}")
    return json.loads(run_go(go, "run", *options, *programs, folder=MODULE, seconds=COMPILE_SECONDS))


def gates_file(listing: dict[str, Any]) -> str:
    """The gates as the package keeps them."""
    gates = {name: gate for name, gate in sorted(listing["gates"].items()) if name not in WHOLE_STAGES}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(gate)}" for name, gate in gates.items())
    return f"{{\n{lines}\n}}\n"


def main(name: str) -> None:
    listing = listed(name, pinned.chosen())
    print(gates_file(listing) if name == "gates" else json.dumps(listing, indent=1), end="")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
