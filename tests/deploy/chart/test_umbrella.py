"""The chart as a dependency of another one, by Helm's conventions: `condition`, `global`, `null` for a default."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy import helm, values_table

NULLABLE: Final = sorted({value.path for value in values_table.values(values_table.VALUES.read_text())})
SECTIONS: Final = sorted({path.rpartition(".")[0] for path in NULLABLE} - {""})
IMAGE: Final = "kscheduler:0.1.0"
REPORTED: Final = Path(__file__).parents[2] / "reported" / "cases" / "chart-umbrella"

# Values of a chart that has this one as its dependency.
SHARED: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "an empty section": {"kscheduler": {}},
    "switched on": {"kscheduler": {"enabled": True}},
    "globals of other charts": {
        "global": {
            "storageClass": "fast",
            "security": {"allowInsecureImages": True},
            "postgresql": {"auth": {"username": "me"}},
            "domain": "example.org",
        }
    },
    "globals that are nothing": {"global": {"imageRegistry": None, "imagePullSecrets": None}},
    "no globals": {"global": None},
    "tags": {"tags": {"kscheduler": True}},
    "resources taken away": {"kscheduler": {"resources": None}},
    "a limit taken away": {"kscheduler": {"resources": {"limits": None}}},
    "probes taken away": {"kscheduler": {"startupProbe": None, "livenessProbe": None, "readinessProbe": None}},
    "contexts taken away, as OpenShift wants it": {
        "kscheduler": {"podSecurityContext": None, "containerSecurityContext": None}
    },
    "a user taken away": {"kscheduler": {"podSecurityContext": {"runAsUser": None, "fsGroup": None}}},
    "no spreading": {"kscheduler": {"topologySpreadConstraints": None}},
    "no configuration": {"kscheduler": {"config": None}},
    "no connection": {"kscheduler": {"config": {"clientConnection": None}}},
    "no profiles": {"kscheduler": {"config": {"profiles": None}}},
    "no election said": {"kscheduler": {"leaderElection": None}},
    "no image said": {"kscheduler": {"image": None}},
    "no tag": {"kscheduler": {"image": {"tag": None, "digest": None}}},
    "no rights said": {"kscheduler": {"rbac": None, "serviceAccount": None}},
    "no service said": {"kscheduler": {"service": None, "server": None, "tls": None}},
    "no labels": {"kscheduler": {"commonLabels": None, "podLabels": None, "podAnnotations": None}},
    "names": {"kscheduler": {"nameOverride": None, "fullnameOverride": None, "namespaceOverride": None}},
    "no monitoring said": {"kscheduler": {"metrics": None}},
    "monitors half said": {"kscheduler": {"metrics": {"serviceMonitor": {"enabled": True, "tlsConfig": None}}}},
    "nothing besides": {"kscheduler": {"extraArgs": None, "extraEnv": None, "extraObjects": None, "tests": None}},
}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart with this one in `charts/`."""
    folder = tmp_path_factory.mktemp("platform")
    shutil.copytree(helm.CHART, folder / "charts" / "kscheduler")
    version = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())["version"]
    dependency = {"name": "kscheduler", "version": version, "condition": "kscheduler.enabled", "tags": ["kscheduler"]}
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0", "dependencies": [dependency]}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
    return folder


def rendered(chart: Path, values: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    text = helm.run_helm("template", "shop", chart, "--namespace", "kube-scheduling", "--values", file)
    return [tree for tree in yaml.safe_load_all(text) if tree]


def pods_of(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    yield from (tree["spec"]["template"]["spec"] for tree in objects if tree["kind"] == "Deployment")


@pytest.mark.parametrize("values", SHARED.values(), ids=SHARED)
def test_a_chart_that_embeds_this_one_renders(platform: Path, tmp_path: Path, values: dict[str, Any]) -> None:
    (pod,) = pods_of(rendered(platform, values, tmp_path))
    assert pod["containers"][0]["image"] == IMAGE
    assert pod["containers"][0]["args"]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_condition_switches_it_on_and_off(platform: Path, tmp_path: Path, enabled: bool) -> None:
    assert bool(rendered(platform, {"kscheduler": {"enabled": enabled}}, tmp_path)) is enabled


def test_the_reported_chart_renders(tmp_path: Path) -> None:
    """tests/reported/cases: an umbrella chart that says nothing but the condition."""
    chart = shutil.copytree(REPORTED, tmp_path / "chart")
    shutil.copytree(helm.CHART, chart / "charts" / "kscheduler")
    text = helm.run_helm("template", "p", chart)
    assert IMAGE in text
    assert not helm.run_helm("template", "p", chart, "--set", "kscheduler.enabled=false").strip()


def test_shared_registry_and_secrets_are_used_in_either_form_and_once_each(platform: Path, tmp_path: Path) -> None:
    shared = {"imageRegistry": "mirror.example.org", "imagePullSecrets": ["first", {"name": "second"}]}
    own = {"imagePullSecrets": [{"name": "first"}, "third"]}
    (pod,) = pods_of(rendered(platform, {"global": shared, "kscheduler": own}, tmp_path))
    assert pod["containers"][0]["image"] == f"mirror.example.org/{IMAGE}"
    assert pod["imagePullSecrets"] == [{"name": "first"}, {"name": "second"}, {"name": "third"}]


def test_what_is_taken_away_is_gone_where_it_may_be(platform: Path, tmp_path: Path) -> None:
    gone = ("resources", "startupProbe", "podSecurityContext", "priorityClassName", "topologySpreadConstraints")
    (pod,) = pods_of(rendered(platform, {"kscheduler": dict.fromkeys(gone)}, tmp_path))
    assert not pod["containers"][0].get("resources")
    assert not pod.get("securityContext")
    assert "priorityClassName" not in pod
    assert "topologySpreadConstraints" not in pod


@pytest.mark.parametrize("paths", [NULLABLE[at::12] for at in range(12)], ids=lambda paths: f"{paths[0]} ...")
def test_values_that_are_null_render_alone_and_together(tmp_path: Path, paths: list[str]) -> None:
    together: dict[str, Any] = {}
    for path in paths:
        *parents, name = path.split(".")
        inside = together
        for parent in parents:
            inside = inside.setdefault(parent, {})
        inside[name] = None
    assert [*pods_of(rendered(helm.CHART, together, tmp_path))]


@pytest.mark.parametrize("path", SECTIONS)
def test_a_section_that_is_null_is_as_if_nobody_had_spoken_of_it(tmp_path: Path, path: str) -> None:
    *parents, name = path.split(".")
    values: dict[str, Any] = {}
    inside = values
    for parent in parents:
        inside[parent] = {}
        inside = inside[parent]
    inside[name] = None
    (pod,) = pods_of(rendered(helm.CHART, values, tmp_path))
    assert pod["containers"][0]["image"] == IMAGE
