"""The Dockerfile: what can be said of it without building it, and that it agrees with the Deployment."""

import argparse
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from kscheduler.cli.commands import run

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def instructions() -> list[tuple[str, str]]:
    """Keyword and arguments of every instruction, comments gone and continued lines joined."""
    lines = "\n".join(line for line in TEXT.splitlines() if line.strip() and not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines).splitlines()
    return [(keyword, rest) for keyword, _, rest in (line.partition(" ") for line in joined)]


def final_stage() -> list[tuple[str, str]]:
    last = max(index for index, (keyword, _) in enumerate(instructions()) if keyword == "FROM")
    return instructions()[last:]


def of(keyword: str, stage: list[tuple[str, str]]) -> list[str]:
    return [rest for name, rest in stage if name == keyword]


def container() -> dict[str, Any]:
    deployment = yaml.safe_load((ROOT / "deploy" / "manifests" / "30-deployment.yaml").read_text())
    (one,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def test_both_stages_have_the_same_base_so_that_the_environments_links_hold() -> None:
    assert of("FROM", instructions()) == ["python:${PYTHON} AS build", "python:${PYTHON}"]


def test_the_final_stage_takes_the_environment_and_nothing_from_the_context() -> None:
    assert of("COPY", final_stage()) == ["--from=build /opt/kscheduler /opt/kscheduler"]


def test_it_runs_as_a_number_that_the_deployment_names_too() -> None:
    assert of("USER", final_stage()) == ["65532:65532"]


def test_it_needs_no_writable_root() -> None:
    (environment,) = of("ENV", final_stage())
    assert "PYTHONDONTWRITEBYTECODE=1" in environment
    assert "--compile" in TEXT
    assert not of("VOLUME", final_stage())


def test_its_command_is_a_list_and_what_the_deployment_runs() -> None:
    assert [json.loads(rest) for rest in of("ENTRYPOINT", final_stage())] == [["/opt/kscheduler/bin/kscheduler"]]
    assert [json.loads(rest) for rest in of("CMD", final_stage())] == [container()["args"]]


def test_the_service_understands_the_deployments_flags() -> None:
    parser = argparse.ArgumentParser()
    run.add_parser(parser.add_subparsers())
    flags = parser.parse_args(container()["args"])
    assert (flags.bind_address, flags.secure_port, flags.log_format) == ("0.0.0.0", 10259, "json")


def test_version_and_licence_are_the_projects() -> None:
    version = PROJECT["version"]
    assert of("ARG", final_stage())[0] == f"VERSION={version}"
    assert container()["image"] == f"kscheduler:{version}"
    (labels,) = of("LABEL", final_stage())
    assert f'org.opencontainers.image.licenses="{PROJECT["license"]}"' in labels
    assert {"title", "description", "source", "version", "revision"} <= set(
        re.findall(r"org\.opencontainers\.image\.(\w+)=", labels)
    )


def test_dependencies_come_as_wheels_only() -> None:
    (install,) = (rest for rest in of("RUN", instructions()) if " install " in rest)
    assert "--only-binary :all:" in install
    assert '"$(echo /wheels/kscheduler-*.whl)[uvloop]"' in install


def test_the_build_context_is_the_sources_alone() -> None:
    ignore = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in ignore if line and not line.startswith("#")]
    assert rules[0] == "*"
    copied = {name for rest in of("COPY", instructions()) if "--from" not in rest for name in rest.split()[:-1]}
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied
