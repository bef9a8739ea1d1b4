"""What Kubernetes' source says that no program lists: read from the modules as Go has downloaded them.

Read with patterns, not with a parser of Go: enough for the declarations of metrics, the gates that are asked for, the
texts of messages, and how much of each file has changed. Comments do not count, nor do tests.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import cache_folder
from tests.controlplane.releases.pinned import Release
from tests.controlplane.toolchain import find_go, needed_by, run_go

DOWNLOAD_SECONDS: Final = 600.0
# Of k8s.io/kubernetes, and of modules that are published out of it, what decides about pods.
FOLDERS: Final = (
    ("k8s.io/kubernetes", "pkg/scheduler"),
    ("k8s.io/dynamic-resource-allocation", ""),
    ("k8s.io/component-helpers", "nodedeclaredfeatures"),
    ("k8s.io/component-helpers", "scheduling"),
    ("k8s.io/component-helpers", "resource"),
    ("k8s.io/component-helpers", "storage"),
    ("k8s.io/apimachinery", "pkg/api/resource"),
)
READING: Final = ("pkg/scheduler", "cmd/kube-scheduler")
_COMMENT_OR_TEXT: Final = re.compile(r"//[^\n]*|/\*.*?\*/|`[^`]*`|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_METRIC: Final = re.compile(
    r"metrics\.New(Counter|Gauge|Histogram)(?:Vec)?\(\s*&metrics\.\w+Opts\{(.*?)\n\t+\},?\s*(\[\]string\{[^}]*\})?",
    re.DOTALL,
)
_OF_TESTS: Final = re.compile(r"_test\.go$|testing/|(^|/)zz_generated")
# Lines whose texts no user of the API sees.
_OF_LOGS: Final = re.compile(r"logger|klog|utilruntime|Help:|import|panic\(")


def folder_of(module: str, release: Release) -> Path:
    """Where the module's source lies. Raises GoError."""
    version = release.tag if module == "k8s.io/kubernetes" else release.staging_tag
    go = find_go(cache_folder(), needed_by(release.module_file))
    arguments = ("mod", "download", "-json", f"{module}@{version}")
    return Path(json.loads(run_go(go, *arguments, folder=Path("/"), seconds=DOWNLOAD_SECONDS))["Dir"])


def files_of(folder: Path) -> Iterator[Path]:
    """The Go files that are built into a program."""
    yield from (path for path in sorted(folder.rglob("*.go")) if not _OF_TESTS.search(str(path.relative_to(folder))))


def without_comments(text: str) -> str:
    """The code, with its texts."""
    return _COMMENT_OR_TEXT.sub(lambda found: "" if found[0].startswith("/") else found[0], text)


def metrics(release: Release) -> dict[str, str]:
    """Type and labels of each series that pkg/scheduler/metrics declares, by name without the subsystem."""
    source = folder_of("k8s.io/kubernetes", release) / "pkg" / "scheduler" / "metrics" / "metrics.go"
    return declared_metrics(without_comments(source.read_text()))


def declared_metrics(code: str) -> dict[str, str]:
    """Of such a file."""
    found: dict[str, str] = {}
    for kind, options, labels in _METRIC.findall(code):
        name = re.search(r"\bName:\s*\"(\w+)\"", options)
        if name:
            found[name[1]] = described(kind.lower(), re.findall(r"\"(\w+)\"", labels))
    return found


def described(kind: str, labels: list[str]) -> str:
    """As both lists of metrics describe a series."""
    return f"{kind} by {', '.join(sorted(labels))}" if labels else kind


def gates_read(release: Release) -> dict[str, str]:
    """The feature gates that the scheduler asks for."""
    root = folder_of("k8s.io/kubernetes", release)
    code = (path.read_text() for folder in READING for path in files_of(root / folder))
    names = {name for text in code for name in re.findall(r"features\.([A-Z]\w+)", without_comments(text))}
    return dict.fromkeys(sorted(names - {"FeatureGates"}), "")


def modules(release: Release) -> dict[str, str]:
    """What is built in from elsewhere, and Go itself: versions by module."""
    text = release.module_file.read_text()
    required = re.findall(r"^\t(\S+) (v\S+)(?: // indirect)?$", text, re.MULTILINE)
    of_others = {name: version for name, version in required if not name.startswith("k8s.io/")}
    return of_others | dict(re.findall(r"^(go) (\S+)$", text, re.MULTILINE))


def texts(release: Release) -> dict[str, str]:
    """Texts with more than one word, and the file that has each: reasons, messages, errors."""
    found: dict[str, str] = {}
    for name, path in _deciding(release):
        for line in without_comments(path.read_text()).splitlines():
            if not _OF_LOGS.search(line):
                found |= dict.fromkeys(
                    (text for text in re.findall(r"\"([^\"]+)\"", line) if " " in text.strip()), name
                )
    return found


def changed_files(before: Release, release: Release) -> dict[str, str]:
    """How many lines of code are new and gone in each file, the most first."""
    counts: dict[str, tuple[int, int]] = {}
    old, new = dict(_deciding(before)), dict(_deciding(release))
    for name in old.keys() | new.keys():
        lines = [_lines(paths.get(name)) for paths in (old, new)]
        added, removed = (lines[1] - lines[0]).total(), (lines[0] - lines[1]).total()
        if added or removed:
            counts[name] = added, removed
    ordered: Mapping[str, tuple[int, int]] = dict(sorted(counts.items(), key=lambda item: -sum(item[1])))
    return {name: f"+{added} -{removed}" for name, (added, removed) in ordered.items()}


def _lines(path: Path | None) -> Counter[str]:
    code = "" if path is None else without_comments(path.read_text())
    return Counter(line.strip() for line in code.splitlines() if len(line.strip()) > 1)


def _deciding(release: Release) -> Iterator[tuple[str, Path]]:
    for module, folder in FOLDERS:
        root = folder_of(module, release)
        for path in files_of(root / folder):
            yield f"{module.removeprefix('k8s.io/')}/{path.relative_to(root)}", path
