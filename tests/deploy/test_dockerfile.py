"""The Dockerfile: what can be said of it without building it, and that it agrees with the Deployment."""

import argparse
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import yaml

from deploy.image import debian_root, dockerfile, install, lock
from kscheduler.cli.commands import run

ROOT = Path(__file__).parents[2]
FILE = dockerfile.read(dockerfile.FILE.read_text())
APPLICATION = FILE.stage("application")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROCESS = FILE.process({}, debian_root.VARIABLES)


def pod_spec() -> dict[str, Any]:
    objects = yaml.safe_load_all((ROOT / "deploy" / "kscheduler.yaml").read_text())
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


def container() -> dict[str, Any]:
    (one,) = pod_spec()["containers"]
    assert isinstance(one, dict)
    return one


def test_hadolint_has_nothing_against_it() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    command = [str(hadolint), "--no-color", "--failure-threshold", "style", str(dockerfile.FILE)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_both_bases_are_named_by_digest_once_and_no_other_image_is_used() -> None:
    for reference in FILE.arguments.values():
        assert re.fullmatch(r"[a-z0-9.]+/[a-z0-9./-]+:[\w.-]+@sha256:[0-9a-f]{64}", reference)
    assert [stage.base for stage in FILE.stages] == ["${FETCH}", "${BASE}", "${BASE}"]
    assert set(FILE.arguments) == {"FETCH", "BASE"}
    assert "# syntax=" not in dockerfile.FILE.read_text()  # an image that no digest pins


def test_the_final_stage_takes_the_application_and_runs_nothing() -> None:
    assert [(one.flags(), one.words()) for one in FILE.final.of("COPY")] == [
        (["--from=application"], ["/stage/", "/"]),
    ]
    assert not FILE.final.of("RUN")


def test_the_stage_that_unpacks_as_root_has_no_network() -> None:
    assert [one.words() for one in APPLICATION.of("USER")] == [["0:0"]]
    assert [one.flags() for one in APPLICATION.of("RUN")] == [["--network=none"]]


def test_the_steps_are_run_by_the_python_that_will_run_them_and_exist() -> None:
    (fetch,) = (one.words() for one in FILE.stage("wheels").of("RUN"))
    (unpack,) = (one.words() for one in APPLICATION.of("RUN"))
    assert fetch == ["python3", "-I", "/build/install.py", "fetch"]
    assert unpack == [install.INTERPRETER, "-I", "/build/install.py", "install"]
    assert install.PYTHON in FILE.arguments["FETCH"]
    assert tuple(map(int, install.PYTHON.split("."))) == lock.PYTHON
    assert install.MACHINES == lock.MACHINES


def test_it_runs_as_a_number_that_the_deployment_names_too() -> None:
    assert PROCESS["User"] == "65532:65532"
    context = pod_spec()["securityContext"]
    assert PROCESS["User"] == f"{context['runAsUser']}:{context['runAsGroup']}"


def test_it_needs_no_writable_root_and_imports_nothing_from_where_it_stands() -> None:
    assert {"PYTHONDONTWRITEBYTECODE=1", "PYTHONSAFEPATH=1"} <= set(PROCESS["Env"])
    assert not [one for one in FILE.final.instructions if one.keyword == "VOLUME"]


def test_the_bases_variables_stay_and_the_programs_are_found() -> None:
    variables = dict(one.split("=", 1) for one in PROCESS["Env"])
    assert variables["SSL_CERT_FILE"] == debian_root.VARIABLES["SSL_CERT_FILE"]
    assert variables["PATH"].split(":")[0] == f"{install.HOME}/bin"


def test_its_command_is_a_list_to_which_the_deployment_adds_arguments() -> None:
    assert PROCESS["Entrypoint"] == [f"{install.HOME}/bin/kscheduler"]
    assert PROCESS["Cmd"][0] == container()["args"][0]
    assert "command" not in container()


def test_the_service_understands_the_deployments_flags() -> None:
    parser = argparse.ArgumentParser()
    run.add_parser(parser.add_subparsers())
    flags = parser.parse_args(container()["args"])
    assert (flags.config, flags.secure_port, flags.logging_format) == (
        "/etc/kscheduler/config/config.yaml",
        10259,
        "json",
    )
    assert list(PROCESS["ExposedPorts"]) == ["10259/tcp"]


def test_version_and_licence_are_the_projects() -> None:
    version, labels = PROJECT["version"], PROCESS["Labels"]
    assert container()["image"] == f"kscheduler:{version}"
    assert labels["org.opencontainers.image.version"] == version
    assert labels["org.opencontainers.image.licenses"] == PROJECT["license"]
    given = FILE.process({"VERSION": "9.9", "REVISION": "abc"}, {})["Labels"]
    assert (given["org.opencontainers.image.version"], given["org.opencontainers.image.revision"]) == ("9.9", "abc")


def test_the_build_context_is_what_is_copied_and_nothing_else() -> None:
    ignore = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in ignore if line and not line.startswith("#")]
    assert rules[0] == "*"
    copies = [one for stage in FILE.stages for one in stage.of("COPY") if not one.flags()]
    copied = {name for one in copies for name in one.words()[:-1]}
    assert {rule.removeprefix("!") for rule in rules if rule.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_entry_point_of_the_image_is_the_projects() -> None:
    module, _, function = PROJECT["scripts"]["kscheduler"].partition(":")
    assert f"from {module} import {function}" in install.CONSOLE_SCRIPT


def test_lists_in_instructions_are_json() -> None:
    for stage in FILE.stages:
        for one in [*stage.of("RUN"), *stage.of("ENTRYPOINT"), *stage.of("CMD")]:
            assert json.loads(one.rest[one.rest.index("[") :])
