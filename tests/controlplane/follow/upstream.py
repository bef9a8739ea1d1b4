"""A release's own lists: of its kube-scheduler, which is asked without a cluster, and of programs over its modules."""

import re
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import yaml

from kscheduler.api.machinery.resources import LATER, RESOURCES
from tests.controlplane import kubeconfig
from tests.controlplane.follow.comparison import flat
from tests.controlplane.listings.__main__ import WHOLE_STAGES, listed
from tests.controlplane.process import free_port, wait_until
from tests.controlplane.releases.pinned import Release
from tests.controlplane.typetable.__main__ import kinds_of, sections, table_of

SECONDS: Final = 60.0
# An API server that answers nobody.
NOBODY: Final = "http://127.0.0.1:1"
HEAD: Final = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def gate_text(stage: str, *, default: bool, locked: bool, needs: tuple[str, ...]) -> str:
    """As both lists of gates describe one."""
    words = (stage or "GA", "on" if default else "off", "locked" if locked else "", "needs" if needs else "", *needs)
    return " ".join(filter(None, words))


def gates(release: Release) -> dict[str, str]:
    """Every gate that kube-scheduler registers, with its stage, default, lock and needs."""
    found: dict[str, dict[str, Any]] = listed("gates", release)["gates"]
    return {
        name: gate_text(
            gate["stage"],
            default=gate["default"],
            locked=gate.get("locked", False),
            needs=tuple(sorted(gate.get("needs") or ())),
        )
        for name, gate in found.items()
        if name not in WHOLE_STAGES
    }


def points(release: Release) -> dict[str, str]:
    """The extension points of each in-tree plugin."""
    return {name: ", ".join(sorted(found)) for name, found in listed("points", release).items()}


def events(release: Release) -> dict[str, str]:
    """By plugin and resource, the actions that it registers with default gates."""
    return event_lines(listed("events", release))


def event_lines(tree: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """As both lists of events have it."""
    return {
        f"{plugin}: {resource}": ", ".join(sorted(actions))
        for plugin, by_resource in tree.items()
        for resource, actions in by_resource.items()
    }


def permissions(release: Release) -> dict[str, str]:
    """Verbs by group and resource."""
    return {name: ", ".join(verbs) for name, verbs in listed("permissions", release).items()}


def flags(kube_scheduler: Path) -> dict[str, str]:
    """The names of its flags, from its help."""
    asked = subprocess.run([kube_scheduler, "--help"], capture_output=True, text=True, timeout=SECONDS, check=False)
    return dict.fromkeys(re.findall(r"^\s+(?:-\w, )?--([\w-]+)", asked.stdout, re.MULTILINE), "")


@contextmanager
def _started(kube_scheduler: Path, folder: Path, *arguments: str | Path) -> Iterator[None]:
    """It runs, and waits for an API server that does not answer."""
    command: list[str | Path] = [kube_scheduler, "--leader-elect=false", "--cert-dir", folder, *arguments]
    with (folder / "log").open("w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            child.kill()
            child.wait()


def page(kube_scheduler: Path) -> dict[str, str]:
    """The type of each series on its page of metrics, without a cluster."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="kscheduler-follow-") as name:
        config = kubeconfig.write(Path(name, "kubeconfig"), server=NOBODY)
        served = ("--bind-address=127.0.0.1", f"--secure-port={port}", "--authorization-always-allow-paths=/metrics")
        with _started(kube_scheduler, Path(name), "--kubeconfig", config, "--authentication-skip-lookup", *served):
            wait_until("its page of metrics", lambda: _page_at(port), SECONDS)
            text = _page_at(port)
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))


def _page_at(port: int) -> str:
    # The certificate is one that the process has just made for itself.
    with suppress(OSError):
        context = ssl._create_unverified_context()
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/metrics", timeout=5, context=context) as answer:
            return str(answer.read().decode())
    return ""


def configuration(kube_scheduler: Path, gates: str = "") -> dict[str, str]:
    """The leaves of the configuration that it completes from an empty one."""
    with tempfile.TemporaryDirectory(prefix="kscheduler-follow-") as name:
        folder, written = Path(name), Path(name, "written.yaml")
        config = kubeconfig.write(folder / "kubeconfig", server=NOBODY)
        empty = folder / "scheduler.yaml"
        empty.write_text(f"{HEAD}clientConnection: {{kubeconfig: {config}}}\nleaderElection: {{leaderElect: false}}\n")
        arguments = ("--config", empty, "--write-config-to", written, f"--feature-gates={gates}", "--secure-port=0")
        with _started(kube_scheduler, folder, *arguments):
            wait_until("its configuration", lambda: written.exists() and written.stat().st_size, SECONDS)
            tree = yaml.safe_load(written.read_text())
    return {path: value for path, value in flat(tree).items() if is_compared(path, value)}


def is_compared(path: str, value: str) -> bool:
    """Whether a leaf means something: not one that is empty, a missing weight, or what this run has put there."""
    is_of_run = path in {"clientConnection.kubeconfig", "delayCacheUntilActive"}
    return value not in {"", "{}", "[]", "None"} and not is_of_run and not (path.endswith(".weight") and value == "0")


def api_types(release: Release) -> dict[str, str]:
    """The fields of each type of the embedded cluster's kinds that the release has, as the table of types has them."""
    later = [kind for kind in LATER if kind.is_of(f"{release.major}.{release.minor}")]
    return type_lines(table_of(kinds_of((*RESOURCES, *later)), release))


def type_lines(table: str) -> dict[str, str]:
    """By type and field, what the table says of it."""
    found: dict[str, str] = {}
    for name, section in sections(table).items():
        first, *fields = section.splitlines()
        found[name] = first.partition(" = ")[2]
        for field in fields:
            field_name, _, rest = field.strip().partition(" ")
            found[f"{name}.{field_name}"] = rest
    return found
