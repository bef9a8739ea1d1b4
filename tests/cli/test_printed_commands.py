"""What `kscheduler cluster --schedule` prints to be pasted is taken by the commands, whatever flags it was given."""

import argparse
import shlex
from pathlib import Path

import pytest

from kscheduler.cli import build_parser, kubectl_plugin
from kscheduler.cli.commands import cluster
from kscheduler.embedded.demo.cluster import query_commands

VALUES = {
    "nodes": "3",
    "port": "0",
    "host": "127.0.0.1",
    "accept-hosts": "a.example",
    "seed": "1",
    "no-kubelets": "",
    "controllers": "*",
    "gpus": "1",
    "heartbeats": "",
    "enable-faults": "",
    "kubeconfig": "a folder/kubeconfig",
    "feature-gates": "GenericWorkload=true",
    "emulated-version": "1.37",
    "schedule": "",
    "scheduler-name": "mine",
    "config": "my config.yaml",
    "plugin": "my plugin.py",
    "enable-plugins": "",
    "debug-plugins": "",
    "plugin-directory": "my folder",
    "record": "recorded",
    "record-max-size": "1Gi",
    "record-redact": "",
    "record-redact-key": "key",
    "v": "2",
}
FLAGS = {name: f"--{name}={value}" if value else f"--{name}" for name, value in VALUES.items()}
# They begin the names of flags that say how the cluster's own log looks.
OF_THE_LOG = ("log-", "logging-", "vmodule")


def cluster_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    return cluster.add_parser(parser.add_subparsers())


def printed(*flags: str) -> list[str]:
    options = cluster._options(cluster_parser().parse_args(flags), cluster._Scheduling())
    return [command for _, command in query_commands(options, "config.yaml", Path("kube config"))]


def assert_taken(command: str) -> None:
    program, verb, *words = shlex.split(command)
    of_kubectl = "kubectl" in Path(program).name
    parser = kubectl_plugin.build_parser(verb) if of_kubectl else build_parser([verb])
    assert parser.parse_args([verb, *words]) is not None


@pytest.mark.parametrize("name", FLAGS)
def test_each_flag_leaves_commands_that_can_be_pasted(name: str) -> None:
    for command in printed("--schedule", "--emulated-version=1.37", FLAGS[name]):
        assert_taken(command)


def test_all_flags_together_too_and_rules_and_plugins_are_handed_on() -> None:
    found = printed(*FLAGS.values())
    for command in found:
        assert_taken(command)
    for command in found[:2]:
        words = shlex.split(command)
        assert {FLAGS[name] for name in ("plugin", "plugin-directory", "feature-gates", "emulated-version")} <= {*words}


def test_no_flag_of_the_command_is_forgotten_here() -> None:
    known = {option.lstrip("-") for action in cluster_parser()._actions for option in action.option_strings}
    assert {name for name in known - {*FLAGS} if not name.startswith(OF_THE_LOG)} == {"h", "help"}
