"""The chart is the one source: plain manifest, Kustomize overlays, README, schema and dashboard are made from it."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.controlplane.binaries import find_kubectl
from tests.deploy import helm, manifests

FILES: Final = manifests.files()
# Overlay: the value set that means the same, the namespace that it is installed into, and another release name.
OVERLAYS: Final[dict[str, tuple[str, ...]]] = {
    "base": ("default", helm.NAMESPACE),
    "single": ("single", helm.NAMESPACE),
    "monitoring": ("monitoring", helm.NAMESPACE),
    "replace": ("replace", "kube-system"),
    "shadow": ("shadow", helm.NAMESPACE, manifests.SHADOW_RELEASE),
}

Object = dict[str, Any]
Named = dict[tuple[str, str | None, str], Object]


def named(objects: list[Object]) -> Named:
    """Objects by kind, namespace and name; without the Namespace, which Helm makes by a flag."""
    return {
        (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]): one
        for one in objects
        if one["kind"] != "Namespace"
    }


def by_helm(values: str, namespace: str, release: str = helm.RELEASE) -> Named:
    rendered = helm.render(manifests.VALUE_SETS / f"{values}.yaml", namespace=namespace, release=release)
    return named([yaml.safe_load(text) for text in manifests.documents(rendered)])


def by_kustomize(folder: Path) -> Named:
    built = subprocess.run([find_kubectl(), "kustomize", folder], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return named(helm.objects(built.stdout))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(helm.ROOT / "deploy")))
def test_each_file_is_as_its_source_says(path: Path) -> None:
    assert path.read_text() == FILES[path], "`make manifests` writes it anew"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlay_builds_what_helm_renders(overlay: str) -> None:
    assert by_kustomize(helm.ROOT / "deploy" / "kustomize" / overlay) == by_helm(*OVERLAYS[overlay])


def test_what_readme_applies_is_the_base() -> None:
    whole = by_kustomize(helm.ROOT / "deploy")
    assert whole == by_kustomize(helm.ROOT / "deploy" / "kustomize" / "base")
    assert whole == named(helm.objects((helm.ROOT / "deploy" / "kscheduler.yaml").read_text()))


def test_an_image_is_chosen_as_the_base_says(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / "base").symlink_to(helm.ROOT / "deploy" / "kustomize" / "base")
    settings = {
        "resources": ["../base"],
        "images": [{"name": "kscheduler", "newName": "registry.example/team/kscheduler", "newTag": "1.2.3"}],
    }
    (own / "kustomization.yaml").write_text(yaml.safe_dump(settings))
    deployment = by_kustomize(own)["Deployment", helm.NAMESPACE, "kscheduler"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/team/kscheduler:1.2.3"


def test_the_yaml_is_in_style() -> None:
    command = [sys.executable, "-m", "yamllint", "--strict", "--config-file", "deploy/yamllint.yaml"]
    command += ["deploy", ".github", ".pre-commit-config.yaml"]
    result = subprocess.run(command, cwd=helm.ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_the_dockerfile_is_in_style() -> None:
    command: list[str | Path] = [
        Path(sys.prefix, "bin", "hadolint"),
        "--failure-threshold",
        "style",
        "deploy/Dockerfile",
    ]
    result = subprocess.run(command, cwd=helm.ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
