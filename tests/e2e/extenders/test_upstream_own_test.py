"""Kubernetes' own test of extenders passes against kscheduler (`upstream/build.py` says how)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import binaries
from tests.controlplane.kscheduler_process import REPOSITORY
from tests.e2e.extenders.upstream import build

SECONDS = 180.0

pytestmark = [pytest.mark.real, pytest.mark.kubernetes_1_36("the test is 1.36's")]


@pytest.mark.usefixtures("only_kscheduler")
def test_kubernetes_own_test_of_extenders(tmp_path: Path) -> None:
    if not (build.program().is_file() or os.environ.get("KSCHEDULER_LONG") == "1"):
        pytest.skip("KSCHEDULER_LONG=1 builds it, which takes some ten minutes")
    program = build.find()
    log = tmp_path / "kscheduler.log"
    environment = os.environ | {
        "PATH": f"{binaries.find().etcd.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "SCHEDULER_ELSEWHERE": f"{sys.executable} -m kscheduler run --secure-port 0 --log-format json",
        "SCHEDULER_ELSEWHERE_LOG": str(log),
    }
    ran = subprocess.run(
        [program, "-test.run", f"^{build.TEST}$", "-test.v"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert f"--- PASS: {build.TEST}" in ran.stdout, ran.stdout[-3000:] + log.read_text()[-3000:]
    assert '"bound":1' in log.read_text(), "it was kscheduler who bound the pod"
