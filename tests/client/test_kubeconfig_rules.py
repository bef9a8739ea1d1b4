"""A kubeconfig is read as client-go reads it: what is sent, and what is refused."""

from pathlib import Path

import pytest

from kscheduler.client.access.connection import load_connection
from kscheduler.client.errors import ConfigurationError
from tests.client.kubeconfig_cases import CASES, Case, lay_out, write_kubeconfig


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
async def test_a_kubeconfig_is_read_as_client_go_reads_it(case: Case, tmp_path: Path) -> None:
    lay_out(tmp_path)
    path = str(write_kubeconfig(case, tmp_path, "https://127.0.0.1:6443"))
    if case.refused:
        with pytest.raises(ConfigurationError) as caught:
            await load_connection(kubeconfig=path)
        assert case.refused in str(caught.value)
        assert "\n" not in str(caught.value)
        return
    connection = await load_connection(kubeconfig=path, environ={})
    headers = await connection.headers()
    assert headers.get("Authorization", "") == case.sends
    sent = [(name.lower(), value) for name, value in headers.items() if name.startswith("Impersonate-")]
    assert sorted(sent) == sorted((name.lower(), value) for name, value in case.impersonates)
    assert connection.base_url == "https://127.0.0.1:6443"
    assert connection.ssl_context() is not True
