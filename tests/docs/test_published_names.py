"""No page, message or file names a package, an image or a chart of ours that nobody has published.

Anyone who registers such a name is installed by those who type what they read. What exists is a checkout and what is
built of it: a wheel with its file name, an image in the reader's own registry (registry.example in examples).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PLACES: Final = (
    "README.md",
    "SECURITY.md",
    "CONTRIBUTING.md",
    "Makefile",
    "docs",
    "kscheduler",
    "deploy",
    "benchmarks",
    ".ci",
    ".github",
)
TEXT: Final = (".md", ".py", ".toml", ".yaml", ".yml", ".txt", ".tpl", ".sh", ".json", "")

# What follows the verb of an installer, to the end of its line or of the quoted command.
_INSTALLED: Final = re.compile(
    r"\b(?:pipx?|uv|uvx|poetry|conda|easy_install)\b[^\n`]*\b(?:install|add|run|download)\b([^\n`]*)"
)
# Our name as a requirement: no path, no file name.
_FROM_AN_INDEX: Final = re.compile(r"(?<![\w./-])kscheduler(?![\w./-])")
_IMAGE: Final = re.compile(r"\b((?:[a-z0-9-]+\.)+[a-z]{2,}(?::\d+)?)/(?:[\w.-]+/)*kscheduler(?=[:@\s\"'`]|$)")
_CHART: Final = re.compile(
    r"helm repo add|oci://|artifacthub\.io/packages|helm (?:install|upgrade)[^\n`]*\s(?!deploy/)[\w.-]+/kscheduler\b"
)
OWN_REGISTRY: Final = "registry.example"
# Of the project's own source, as chart, image and runbook links name it: nothing is installed from there.
REPOSITORY: Final = "github.com"


def files() -> Iterator[Path]:
    for place in PLACES:
        path = ROOT / place
        yield from (path,) if path.is_file() else (one for one in path.rglob("*") if one.is_file())


def invitations(text: str) -> list[str]:
    """The lines that name what nobody has published."""
    found = [line for line in text.splitlines() if any(map(_FROM_AN_INDEX.search, _INSTALLED.findall(line)))]
    found += [
        match[0]
        for match in _IMAGE.finditer(text)
        if not f".{match[1]}".endswith(f".{OWN_REGISTRY}") and match[1] != REPOSITORY
    ]
    return [*found, *(match[0] for match in _CHART.finditer(text))]


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'kscheduler[simulation]'",
        "python -m pip install kscheduler",
        "uv tool install kscheduler==0.1.0",
        "pipx run kscheduler demo",
        "docker pull ghcr.io/acme/kscheduler:0.1.0",
        'image: "quay.io/kscheduler"',
        "helm repo add kscheduler https://charts.invalid",
        "helm install kscheduler acme/kscheduler",
    ],
)
def test_an_invitation_is_recognised(text: str) -> None:
    assert invitations(text)


def test_nothing_that_nobody_has_published_is_named() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in files()
        if path.suffix in TEXT and "__pycache__" not in path.parts
        for line in invitations(path.read_text(errors="replace"))
    ]
    assert found == []
