"""Tables of Kubernetes' own facts, listed by its Go code: `python -m tests.controlplane.listings gates|points|events`.

    gates    every feature gate of kube-scheduler: `kscheduler/config/feature_gates_1_36.json`, one to a line
    points   what each in-tree plugin implements: to be compared with `kscheduler/config/in_tree_plugins.py`
    events   what each registers: `tests/scheduling/upstream_events_1_37.json`

The programs are compiled against the Go module of the control plane, so its go.mod says which version they list, or the
release that `KUBERNETES_VERSION` names. They are no part of that module: a change here builds no control plane again.
Compiling takes some minutes the first time.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.controlplane.binaries import cache_folder
from tests.controlplane.releases import pinned
from tests.controlplane.releases.pinned import MODULE
from tests.controlplane.toolchain import find_go, needed_by, run_go

PROGRAMS = {"gates": "feature_gates.go", "points": "plugin_points.go", "events": "registered_events.go"}
COMPILE_SECONDS = 1800.0
WHOLE_STAGES = ("AllAlpha", "AllBeta")


def listed(name: str) -> Any:
    """What the program prints. Raises `GoError`."""
    module_file, program = pinned.chosen().module_file, Path(__file__).parent / PROGRAMS[name]
    go = find_go(cache_folder(), needed_by(module_file))
    command = ("run", "-mod=readonly", f"-modfile={module_file}", program)
    return json.loads(run_go(go, *command, folder=MODULE, seconds=COMPILE_SECONDS))


def gates_file(listing: dict[str, Any]) -> str:
    """The gates as the package keeps them."""
    gates = {name: gate for name, gate in sorted(listing["gates"].items()) if name not in WHOLE_STAGES}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(gate)}" for name, gate in gates.items())
    return f"{{\n{lines}\n}}\n"


def main(name: str) -> None:
    listing = listed(name)
    print(gates_file(listing) if name == "gates" else json.dumps(listing, indent=1), end="")  # noqa: T201


if __name__ == "__main__":
    main(sys.argv[1])
