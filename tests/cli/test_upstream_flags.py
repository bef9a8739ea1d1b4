"""Every flag of kube-scheduler is one of `kscheduler run`: the whole list, which the end-to-end suite compares."""

import argparse

import pytest

from kscheduler.cli import main
from kscheduler.cli.commands.run import add_parser

# Of 1.36.3, 1.37.1 and 1.38.0-beta.0, as `kube-scheduler --help` lists them.
KUBE_SCHEDULER_FLAGS = frozenset(
    [
        "allow-metric-labels",
        "allow-metric-labels-manifest",
        "authentication-kubeconfig",
        "authentication-skip-lookup",
        "authentication-token-webhook-cache-ttl",
        "authentication-tolerate-lookup-failure",
        "authorization-always-allow-paths",
        "authorization-kubeconfig",
        "authorization-webhook-cache-authorized-ttl",
        "authorization-webhook-cache-unauthorized-ttl",
        "bind-address",
        "cert-dir",
        "client-ca-file",
        "config",
        "contention-profiling",
        "disable-http2-serving",
        "disabled-metrics",
        "emulated-version",
        "feature-gates",
        "help",
        "http2-max-streams-per-connection",
        "kube-api-burst",
        "kube-api-content-type",
        "kube-api-qps",
        "kubeconfig",
        "leader-elect",
        "leader-elect-lease-duration",
        "leader-elect-renew-deadline",
        "leader-elect-resource-lock",
        "leader-elect-resource-name",
        "leader-elect-resource-namespace",
        "leader-elect-retry-period",
        "log-flush-frequency",
        "log-text-info-buffer-size",
        "log-text-split-stream",
        "logging-format",
        "master",
        "min-compatibility-version",
        "permit-address-sharing",
        "permit-port-sharing",
        "pod-max-in-unschedulable-pods-duration",
        "profiling",
        "requestheader-allowed-names",
        "requestheader-client-ca-file",
        "requestheader-extra-headers-prefix",
        "requestheader-group-headers",
        "requestheader-uid-headers",
        "requestheader-username-headers",
        "secure-port",
        "show-hidden-metrics-for-version",
        "tls-cert-file",
        "tls-cipher-suites",
        "tls-curve-preferences",
        "tls-min-version",
        "tls-private-key-file",
        "tls-sni-cert-key",
        "v",
        "version",
        "vmodule",
        "write-config-to",
    ]
)


def test_every_flag_of_kube_scheduler_is_taken() -> None:
    parser = add_parser(argparse.ArgumentParser().add_subparsers())
    ours = {name.removeprefix("--") for action in parser._actions for name in action.option_strings}
    assert sorted(KUBE_SCHEDULER_FLAGS - ours) == []


def test_run_reports_its_version_as_kube_scheduler_does(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("kscheduler ")
