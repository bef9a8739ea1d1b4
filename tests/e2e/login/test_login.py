"""The HTTPS port in front of an API server: who is let in by token and by certificate, and what when it is away."""

import http.client
import json
import shutil
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane import certificates, kscheduler_process
from tests.controlplane.kscheduler_process import HTTPS, any_certificate, http_port, log_lines
from tests.controlplane.process import Process, wait_until
from tests.e2e.servers import RealServer, Server

GROUP = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "prometheus"
ROLE = "kscheduler-login-test"
SHORT = ("--authorization-webhook-cache-authorized-ttl=1s", "--authorization-webhook-cache-unauthorized-ttl=1s")
SECONDS = 60.0


def ask(process: Process, path: str, token: str = "", context: ssl.SSLContext | None = None, **headers: str) -> int:
    """The status of one request over a connection of its own."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    connection = http.client.HTTPSConnection(
        "127.0.0.1", http_port(process) or 0, timeout=30, context=context or any_certificate()
    )
    try:
        connection.request("GET", path, headers=sent)
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


@contextmanager
def secure(server: Server, folder: Path, *options: str) -> Iterator[Process]:
    """Kscheduler with its port as in a cluster, and exactly the rights of the manifests."""
    process = kscheduler_process.process(
        server.identity("kscheduler"), folder, "--leader-elect=false", *options, ports=HTTPS
    )
    process.start()
    try:
        process.wait_until("its HTTP server", lambda: http_port(process) is not None, SECONDS)
        process.wait_until("its readiness", lambda: ask(process, "/readyz") == 200, SECONDS)
        yield process
    finally:
        process.stop()


@pytest.fixture
def token(server: Server, namespace: str) -> str:
    """Of a ServiceAccount without any rights."""
    collection = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    server.api.create(collection, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    found: str = server.api.create(f"{collection}/{ACCOUNT}/token", request)["status"]["token"]
    return found


@pytest.fixture
def rights(server: Server, namespace: str) -> Iterator[dict[str, Any]]:
    """A role for `/metrics`, and the binding that would give it to the account."""
    metadata = {"name": ROLE}
    role = {"rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
    server.api.create(f"{GROUP}/clusterroles", {**head, "kind": "ClusterRole", **role})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE}
    subject = {"kind": "ServiceAccount", "namespace": namespace, "name": ACCOUNT}
    yield {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
    server.api.delete(f"{GROUP}/clusterrolebindings/{ROLE}", missing_ok=True)
    server.api.delete(f"{GROUP}/clusterroles/{ROLE}", missing_ok=True)


@pytest.mark.usefixtures("only_kscheduler")
def test_a_token_opens_what_its_role_allows_and_closes_with_it(
    server: Server, token: str, rights: dict[str, Any], tmp_path: Path
) -> None:
    with secure(server, tmp_path, *SHORT) as process:
        assert [ask(process, path) for path in ("/livez", "/readyz", "/healthz")] == [200, 200, 200]
        assert [ask(process, path) for path in ("/metrics", "/configz", "/debug/stacks")] == [403, 403, 403]
        assert ask(process, "/metrics", "nonsense") == 401
        assert ask(process, "/metrics", token) == 403
        server.api.create(f"{GROUP}/clusterrolebindings", rights)
        wait_until("the role to count", lambda: ask(process, "/metrics", token) == 200, SECONDS)
        assert ask(process, "/configz", token) == 403
        server.api.delete(f"{GROUP}/clusterrolebindings/{ROLE}")
        wait_until("the role to be gone", lambda: ask(process, "/metrics", token) == 403, SECONDS)
        refused = [line for line in log_lines(process) if line.get("msg") == "login_review_failed"]
        assert refused == [], "the manifests' rights are enough"


@pytest.mark.usefixtures("only_kscheduler")
def test_while_the_api_server_is_away_only_health_is_answered(
    server: Server, token: str, rights: dict[str, Any], tmp_path: Path
) -> None:
    server.api.create(f"{GROUP}/clusterrolebindings", rights)
    no_memory = ("--authentication-token-webhook-cache-ttl=0s", *SHORT)
    with secure(server, tmp_path, *no_memory) as process:
        wait_until("the role to count", lambda: ask(process, "/metrics", token) == 200, SECONDS)
        server.stop_serving()
        try:
            wait_until("the memory to end", lambda: ask(process, "/metrics", token) == 401, SECONDS)
            assert ask(process, "/configz") == 500
            assert ask(process, "/livez") == 200
        finally:
            server.serve_again()
        wait_until("the API server to be asked again", lambda: ask(process, "/metrics", token) == 200, SECONDS)


@pytest.mark.usefixtures("only_kscheduler")
def test_the_clusters_own_client_certificates_and_front_proxies_are_known(server: Server, tmp_path: Path) -> None:
    if not isinstance(server, RealServer):
        pytest.skip("the embedded API server tells no authorities")
    folder = server.plane.folder / "pki"
    contexts = {}
    for name, organization, authority in (
        ("root", "system:masters", "ca"),
        ("jane", "readers", "ca"),
        ("aggregator", "proxies", "front-proxies"),
        ("impostor", "system:masters", "front-proxies"),
    ):
        contexts[name] = any_certificate()
        contexts[name].load_cert_chain(*certificates.create_client(folder, name, organization, authority))
    with secure(server, tmp_path) as process:
        wait_until("the authorities", lambda: ask(process, "/configz", context=contexts["root"]) == 200, SECONDS)
        assert ask(process, "/configz", context=contexts["jane"]) == 403
        assert ask(process, "/configz", context=contexts["impostor"]) == 401
        behind = {"X_Remote_User": "someone", "X_Remote_Group": "system:masters"}
        assert ask(process, "/configz", context=contexts["aggregator"], **behind) == 200
        assert ask(process, "/configz", context=contexts["impostor"], **behind) == 401
        assert ask(process, "/configz", context=contexts["jane"], **behind) == 403


@pytest.mark.usefixtures("only_kscheduler")
def test_a_certificate_is_rotated_under_load_without_a_request_lost(server: Server, tmp_path: Path) -> None:
    pki = tmp_path / "pki"
    certificates.create(pki)
    other = tmp_path / "other"
    certificates.create(other)
    files = ("--tls-cert-file", str(pki / "serving.crt"), "--tls-private-key-file", str(pki / "serving.key"))
    with secure(server, tmp_path, *files) as process:
        first, failures, stop = shown(process), [], threading.Event()

        def load() -> None:
            while not stop.is_set():
                try:
                    if ask(process, "/livez") != 200:
                        failures.append("status")
                except (OSError, http.client.HTTPException) as error:
                    failures.append(repr(error))
                stop.wait(0.1)

        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for name in ("serving.crt", "serving.key"):
                shutil.copy(other / name, pki / f"{name}.new")
                (pki / f"{name}.new").replace(pki / name)
            wait_until("the new certificate", lambda: shown(process) != first, SECONDS)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert failures == []
        assert shown(process) == ssl.PEM_cert_to_DER_cert((other / "serving.crt").read_text())


def shown(process: Process) -> bytes:
    pem = ssl.get_server_certificate(("127.0.0.1", http_port(process) or 0))
    return ssl.PEM_cert_to_DER_cert(pem)


@pytest.mark.usefixtures("only_kscheduler")
def test_z_pages_are_structured_for_who_asks_for_a_version(server: Server, tmp_path: Path) -> None:
    with secure(
        server, tmp_path, "--authorization-always-allow-paths=/livez,/readyz,/healthz,/statusz,/flagz"
    ) as process:
        for path, kind in (("/statusz", "Statusz"), ("/flagz", "Flagz")):
            connection = http.client.HTTPSConnection("127.0.0.1", http_port(process) or 0, context=any_certificate())
            connection.request("GET", path, headers={"Accept": f"application/json;v=v1beta1;g=config.k8s.io;as={kind}"})
            tree = json.loads(connection.getresponse().read())
            connection.close()
            assert (tree["kind"], tree["apiVersion"]) == (kind, "config.k8s.io/v1beta1")
