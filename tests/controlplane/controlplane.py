"""A real control plane on 127.0.0.1: etcd, kube-apiserver and kube-controller-manager, with TLS, RBAC and tokens.

What differs from a production cluster, and why:

- **No kubelets.** Nodes are objects that tests make and nothing sends heartbeats, so the node lifecycle controller is
  off: it would taint every node as unreachable after 40 s. For the same reason the admission plugin
  `TaintNodesByCondition` is off, which counts on that controller to take its taint off new nodes again. The ttl
  controller, which writes hints for kubelets into annotations, is off too. Where pods must run and end,
  `hollow_kubelets` does it.
- **Fast and alike for everybody.** etcd does not wait for the disk; priority-and-fairness is off and the in-flight
  limits are 3,000 and 1,000. These are the settings under which kube-scheduler's own figures are taken.
- **Tokens.** A token file names an administrator (`system:masters`), and kube-scheduler (`system:kube-scheduler`,
  whose role the API server creates itself). kscheduler's token comes from TokenRequest for the ServiceAccount of
  `deploy/kscheduler.yaml`, so a permission that the manifests lack fails here and not in somebody's cluster.

etcd compaction goes through etcd's JSON gateway (`/v3/kv/compaction`), so it needs no program of its own.
"""

import json
import secrets
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.controlplane import certificates, kubeconfig
from tests.controlplane.binaries import Binaries
from tests.controlplane.process import NotReadyError, Process, free_port
from tests.controlplane.rest import Api

READY_SECONDS = 90.0
MANIFESTS = Path(__file__).parents[2] / "deploy" / "kscheduler.yaml"
NAMESPACE = "kscheduler-system"
SERVICE_ACCOUNT = "kscheduler"
FIXED_ADMISSION_OFF = "TaintNodesByCondition"


@dataclass(frozen=True)
class Settings:
    """What a control plane consists of."""

    controllers: bool = True
    """Runs kube-controller-manager. Without it pods need no ServiceAccount either: that admission plugin is off."""
    apiserver_options: tuple[str, ...] = ()
    """Further flags of kube-apiserver."""
    controller_options: tuple[str, ...] = ()
    """Further flags of kube-controller-manager."""


class ControlPlane:
    """The processes, their data in a temporary folder, and what a client needs to reach them."""

    def __init__(self, binaries: Binaries, settings: Settings | None = None) -> None:
        self.binaries = binaries
        self.settings = settings or Settings()
        self.folder = Path(tempfile.mkdtemp(prefix="kscheduler-controlplane-"))
        self.certificates = certificates.create(self.folder / "pki")
        self.url = f"https://127.0.0.1:{free_port()}"
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        self._tokens = {"admin": secrets.token_hex(16), "kube-scheduler": secrets.token_hex(16)}
        self._write_tokens()
        self.api = self.api_as(self._tokens["admin"])
        self.admin_kubeconfig = self.write_kubeconfig("admin", self._tokens["admin"])
        self.kube_scheduler_kubeconfig = self.write_kubeconfig("kube-scheduler", self._tokens["kube-scheduler"])
        self.etcd = self._process("etcd", self._etcd_command())
        self.apiserver = self._process("kube-apiserver", self._apiserver_command())
        self.controllers = self._process("kube-controller-manager", self._controllers_command())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Starts everything and returns when the API server is ready. Raises NotReadyError with the end of a log."""
        self.etcd.start()
        self.start_apiserver()
        if self.settings.controllers:
            self.controllers.start()
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            self.controllers.wait_until("the default ServiceAccount", lambda: self.api.answers(account), READY_SECONDS)

    def stop(self) -> None:
        """Stops everything in reverse and removes the folder."""
        for process in (self.controllers, self.apiserver):
            process.stop()
        self.etcd.kill()
        self.api.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_apiserver(self) -> None:
        self.apiserver.start()
        self.apiserver.wait_until("kube-apiserver's /readyz", lambda: self.api.answers("/readyz"), READY_SECONDS)

    def stop_apiserver(self) -> None:
        """SIGKILL: a graceful stop may take up to a minute with watches open, and a crash is the harder case."""
        self.apiserver.kill()
        self.api.close()

    def restart_apiserver(self) -> None:
        """A new process on the same port with the same data: its watch cache is empty, as after an upgrade."""
        self.stop_apiserver()
        self.start_apiserver()

    def upgrade(self, binaries: Binaries) -> None:
        """API server and controllers of another release on the same data, as when a cluster is upgraded in place."""
        self.stop_apiserver()
        self.controllers.stop()
        self.binaries = binaries
        self.apiserver.command[0] = binaries.kube_apiserver
        self.controllers.command[0] = binaries.kube_controller_manager
        self.start_apiserver()
        if self.settings.controllers:
            self.controllers.start()

    def compact(self) -> None:
        """Makes etcd forget every revision but the present one."""
        revision = self._etcd("/v3/kv/range", {"key": "AA==", "limit": "1"})["header"]["revision"]
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def _etcd(self, path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
        request = urllib.request.Request(self.etcd_url + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=30) as response:
            answer: dict[str, dict[str, str]] = json.load(response)
            return answer

    def api_as(self, token: str) -> Api:
        return Api(self.url, token, self.certificates.authority)

    def write_kubeconfig(self, name: str, token: str) -> Path:
        path = self.folder / "kubeconfigs" / f"{name}.json"
        return kubeconfig.write(path, server=self.url, token=token, authority=self.certificates.authority)

    def kscheduler_kubeconfig(self, manifests: Path = MANIFESTS, namespace: str = NAMESPACE) -> Path:
        """Applies the manifests and returns a kubeconfig with exactly the permissions that they grant."""
        if not manifests.is_file():
            raise NotReadyError(f"kscheduler's permissions come from {manifests}, which is not there")
        self.kubectl("create", "namespace", namespace, "--save-config", accept_failure=True)
        self.kubectl("apply", "-f", str(manifests))
        # Tests start kscheduler themselves; a pod of the Deployment would only wait for a node here.
        self.kubectl("delete", "deployments", "--all", "--namespace", namespace)
        token = self.service_account_token(namespace, SERVICE_ACCOUNT)
        return self.write_kubeconfig("kscheduler", token)

    def grant(self, name: str, rules: Sequence[dict[str, object]]) -> None:
        """A further ClusterRole for kscheduler's ServiceAccount."""
        access = "/apis/rbac.authorization.k8s.io/v1"
        subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": SERVICE_ACCOUNT}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        self.api.create(f"{access}/clusterroles", {"metadata": {"name": name}, "rules": list(rules)})
        self.api.create(
            f"{access}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        )

    def service_account_token(self, namespace: str, name: str) -> str:
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200},
        }
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        token: str = self.api.create(path, request)["status"]["token"]
        return token

    def kubectl(self, *arguments: str, accept_failure: bool = False) -> str:
        """Runs kubectl as the administrator. Returns what it prints. Raises CalledProcessError if it fails."""
        command: list[str | Path] = [self.binaries.kubectl, "--kubeconfig", self.admin_kubeconfig, *arguments]
        finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        if finished.returncode and not accept_failure:
            finished.check_returncode()
        return finished.stdout + finished.stderr

    def process(self, name: str, command: Sequence[str | Path]) -> Process:
        """A further process beside the control plane, with its log in the same folder."""
        return self._process(name, command)

    def _process(self, name: str, command: Sequence[str | Path]) -> Process:
        return Process(name, command, self.folder / "logs" / f"{name}.log")

    def _write_tokens(self) -> None:
        lines = (
            f'{self._tokens["admin"]},admin,admin,"system:masters"',
            f"{self._tokens['kube-scheduler']},system:kube-scheduler,kube-scheduler",
        )
        path = self.folder / "pki" / "tokens.csv"
        path.write_text("\n".join(lines) + "\n")
        path.chmod(0o600)

    def _etcd_command(self) -> list[str | Path]:
        peer = f"http://127.0.0.1:{free_port()}"
        return [
            self.binaries.etcd,
            "--name=default",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--quota-backend-bytes=8589934592",
        ]

    def _apiserver_command(self) -> list[str | Path]:
        pki = self.certificates
        off = [FIXED_ADMISSION_OFF] if self.settings.controllers else [FIXED_ADMISSION_OFF, "ServiceAccount"]
        return [
            self.binaries.kube_apiserver,
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            # An Endpoints object must not name a loopback address: up to 1.36 writing it failed, 1.37 does not start.
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--tls-cert-file={pki.serving}",
            f"--tls-private-key-file={pki.serving_key}",
            f"--cert-dir={self.folder / 'pki'}",
            "--authorization-mode=RBAC",
            # The API server tells these in the ConfigMap extension-apiserver-authentication, as in every cluster.
            f"--client-ca-file={pki.authority}",
            f"--requestheader-client-ca-file={pki.front_proxies}",
            "--requestheader-allowed-names=aggregator",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--token-auth-file={self.folder / 'pki' / 'tokens.csv'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki.service_account_public}",
            f"--service-account-signing-key-file={pki.service_account_key}",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--disable-admission-plugins={','.join(off)}",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=1000",
            *self.settings.apiserver_options,
        ]

    def _controllers_command(self) -> list[str | Path]:
        pki = self.certificates
        return [
            self.binaries.kube_controller_manager,
            f"--kubeconfig={self.admin_kubeconfig}",
            "--leader-elect=false",
            "--controllers=*,-node-lifecycle-controller,-ttl-controller",
            "--secure-port=0",
            f"--service-account-private-key-file={pki.service_account_key}",
            f"--root-ca-file={pki.authority}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            *self.settings.controller_options,
        ]
