"""The chart's package of a release: Helm takes it for its own, and it renders what the folder renders."""

import tarfile
from pathlib import Path

import yaml

from deploy.release import distributions
from tests.deploy import helm

EPOCH = 1_700_000_000


def contents(package: Path) -> dict[str, bytes]:
    with tarfile.open(package) as archive:
        files = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_it_holds_what_helm_packages(tmp_path: Path) -> None:
    (tmp_path / "helm").mkdir()
    helm.run_helm("package", helm.CHART, "--destination", tmp_path / "helm")
    (theirs,) = (tmp_path / "helm").iterdir()
    ours = distributions.chart_package(tmp_path, EPOCH)
    assert ours.name == theirs.name
    packaged, made = contents(theirs), contents(ours)
    name = "kscheduler/Chart.yaml"  # Helm writes it again, without comments
    assert yaml.safe_load(packaged.pop(name)) == yaml.safe_load(made.pop(name))
    assert made == packaged


def test_it_renders_the_image_by_its_digest_and_all_else_as_the_folder_does(tmp_path: Path) -> None:
    package = distributions.chart_package(tmp_path, EPOCH)
    digest = f"sha256:{'0123456789abcdef' * 4}"
    flags = helm.value_arguments([], {"image.registry": "registry.example/team", "image.digest": digest})
    command = ("--namespace", helm.NAMESPACE, "--kube-version", "v1.36.0", *flags)
    rendered = helm.run_helm("template", helm.RELEASE, package, *command)
    assert rendered == helm.run_helm("template", helm.RELEASE, helm.CHART, *command)
    assert f"image: registry.example/team/kscheduler@{digest}\n" in rendered.replace('"', "")
    helm.run_helm("lint", "--strict", package)
