"""Kubelets that start the containers of one image as processes of this machine; all other pods only look as if they
ran.

A container gets its command, arguments with `$(NAME)` filled in, environment, volumes (ConfigMaps, Secrets, and the
ServiceAccount's token, bound to the pod) and its three probes, by which it becomes ready or is started again. The pod's
network is the loopback: 192.0.2.N, which the API server sees, stands for 127.0.1.N, which `status.podIP` gives the
container. Names of Services lead to the first ready pod behind them.

Limits: the container's user and its resources are not applied; a container's image is this checkout. Needs to be root,
for a mount namespace.
"""

import base64
import itertools
import json
import os
import re
import ssl
import sys
import threading
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.controlplane.hollow_kubelets import HollowKubelets, pod_path, running_status
from tests.controlplane.kscheduler_process import REPOSITORY
from tests.controlplane.process import Process
from tests.controlplane.rest import STRATEGIC_PATCH, Api, ApiStatusError, Object

SANDBOX: Final = Path(__file__).parent / "pod_sandbox.py"
# What the image has: `python3`, and the entry point.
PROGRAMS: Final = {"python3": [sys.executable], "": [sys.executable, "-m", "kscheduler"]}
POLL_SECONDS: Final = 0.2
RESTART_SECONDS: Final = 1.0
END_SECONDS: Final = 60.0
_VARIABLE: Final = re.compile(r"\$\((\w+)\)")


class PodRun:
    """One pod's container, from its start to its end, in a thread of its own."""

    def __init__(self, api: Api, pod: Object, number: int, folder: Path, api_url: str) -> None:
        self.pod = pod
        self.address = f"127.0.1.{number}"
        self.shown = f"192.0.2.{number}"
        self._api = api
        self._folder = folder
        self._api_url = api_url
        self._container: Object = pod["spec"]["containers"][0]
        self._ending = threading.Event()
        self._is_abandoned = False
        self._restarts = 0
        self._ready: bool | None = None
        self._thread = threading.Thread(target=self._run, name=pod["metadata"]["name"], daemon=True)
        folder.mkdir(parents=True)
        self.process = Process(pod["metadata"]["name"], self._command(), folder / "container.log")

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """SIGTERM, the grace period, SIGKILL, and the pod is gone; then the thread is over."""
        self._ending.set()
        self._thread.join(END_SECONDS)

    def abandon(self) -> None:
        """The same, without a word to the API server."""
        self._is_abandoned = True
        self._ending.set()

    # --- what the container gets --------------------------------------------------------------------------------------

    def _command(self) -> list[str | Path]:
        environment = self._environment()
        first, *more = self._container.get("command") or [""]
        arguments = [*PROGRAMS[first], *more, *self._container.get("args", [])]
        (self._folder / "layers").mkdir()
        spec = {
            "layers": str(self._folder / "layers"),
            "hosts": self._hosts(),
            "mounts": [[str(self._volume(one["name"])), one["mountPath"]] for one in self._container["volumeMounts"]]
            if "volumeMounts" in self._container
            else [],
            "command": [_VARIABLE.sub(lambda match: environment.get(match[1], match[0]), one) for one in arguments],
            "environment": environment,
        }
        path = self._folder / "sandbox.json"
        path.write_text(json.dumps(spec))
        return ["unshare", "--mount", sys.executable, SANDBOX, path]

    def _environment(self) -> dict[str, str]:
        host, _, port = self._api_url.removeprefix("https://").rpartition(":")
        fields = {"status.podIP": self.address, "metadata.name": self.pod["metadata"]["name"]}
        own = {
            one["name"]: one.get("value") or fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in self._container.get("env", [])
        }
        known = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
        return known | {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port} | own

    def _hosts(self) -> dict[str, str]:
        """Each Service of the namespace by its name, where a pod behind it is ready."""
        namespace = self.pod["metadata"]["namespace"]
        found = {}
        for part in self._api.items(f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"):
            addresses = [one["addresses"][0] for one in part["endpoints"] or () if one["conditions"].get("ready")]
            service = part["metadata"]["labels"]["kubernetes.io/service-name"]
            if addresses:
                found[f"{service}.{namespace}"] = f"127.0.1.{addresses[0].rpartition('.')[2]}"
        return found

    def _volume(self, name: str) -> Path:
        (volume,) = (one for one in self.pod["spec"]["volumes"] if one["name"] == name)
        folder = self._folder / "volumes" / name
        folder.mkdir(parents=True)
        for source in volume.get("projected", {}).get("sources", [volume]):
            self._fill(folder, source)
        return folder

    def _fill(self, folder: Path, source: Object) -> None:
        namespace = self.pod["metadata"]["namespace"]
        if "configMap" in source:
            data = self._api.get(f"/api/v1/namespaces/{namespace}/configmaps/{source['configMap']['name']}")["data"]
            for key, text in data.items():
                (folder / key).write_text(text)
        elif "secret" in source:
            data = self._api.get(f"/api/v1/namespaces/{namespace}/secrets/{source['secret']['secretName']}")["data"]
            for key, text in data.items():
                (folder / key).write_bytes(base64.b64decode(text))
        elif "serviceAccountToken" in source:
            (folder / source["serviceAccountToken"]["path"]).write_text(self._token())
        elif "downwardAPI" in source:
            (folder / "namespace").write_text(namespace)

    def _token(self) -> str:
        metadata = self.pod["metadata"]
        bound = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
        account = self.pod["spec"]["serviceAccountName"]
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3607, "boundObjectRef": bound},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        token: str = self._api.create(path, request)["status"]["token"]
        return token

    # --- its life -----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        started = False
        failures = 0
        self.process.start()
        self._report(ready=False)
        while not self._ending.wait(POLL_SECONDS):
            if not self.process.running:
                if self.pod["spec"].get("restartPolicy") == "Never":
                    self._report_end(self.process.wait(0))
                    break
                self._restarts, started, failures = self._restarts + 1, False, 0
                self._report(ready=False)
                self._ending.wait(RESTART_SECONDS)
                self.process.start()
            elif not started:
                started = self._passes("startupProbe")
            else:
                failures = 0 if self._passes("livenessProbe") else failures + 1
                if failures * POLL_SECONDS > 30:
                    self.process.kill()
                self._report(ready=self._passes("readinessProbe"))
        self._ending.wait()
        self.process.stop(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
        if self._is_abandoned:
            return
        self._gone(
            lambda: self._api.delete(
                pod_path(self.pod), grace_seconds=0, missing_ok=True, uid=self.pod["metadata"]["uid"]
            )
        )
        self._api.close()

    def _passes(self, name: str) -> bool:
        probe = self._container.get(name)
        if probe is None:
            return True
        queried = probe["httpGet"]
        (port,) = (one["containerPort"] for one in self._container["ports"] if one["name"] == queried["port"])
        url = f"{queried['scheme'].lower()}://{self.address}:{port}{queried['path']}"
        # a kubelet checks no certificate
        unchecked = ssl._create_unverified_context() if queried["scheme"] == "HTTPS" else None
        try:
            with urllib.request.urlopen(url, timeout=probe["timeoutSeconds"], context=unchecked) as response:
                return bool(200 <= response.status < 400)
        except OSError:
            return False

    def _report(self, *, ready: bool) -> None:
        if ready == self._ready:
            return
        self._ready = ready
        status = running_status(self.pod, self.shown)
        for condition in status["conditions"]:
            if condition["type"] in {"Ready", "ContainersReady"}:
                condition["status"] = str(ready)
        for container in status["containerStatuses"]:
            container |= {"ready": ready, "restartCount": self._restarts}
        self._patch(status)

    def _report_end(self, code: int) -> None:
        state = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
        status = running_status(self.pod, self.shown) | {"phase": "Failed" if code else "Succeeded"}
        for container in status["containerStatuses"]:
            container |= {"ready": False, "started": False, "state": state}
        self._patch(status)

    def _patch(self, status: Object) -> None:
        body = {"metadata": {"uid": self.pod["metadata"]["uid"]}, "status": status}
        self._gone(lambda: self._api.patch(f"{pod_path(self.pod)}/status", body, STRATEGIC_PATCH))

    def _gone(self, act: Callable[[], object]) -> None:
        """Whatever is done to the pod may come after its end. The last request is long ago: by a new connection."""
        self._api.close()
        try:
            act()
        except ApiStatusError as error:
            if error.code not in {404, 409}:
                raise


class ProcessKubelets(HollowKubelets):
    """Runs the pods of every node while it is entered; those of `image` as processes."""

    def __init__(self, api: Api, image: str, folder: Path) -> None:
        super().__init__(api)
        self.runs: dict[str, PodRun] = {}
        self._image = image
        self._folder = folder
        self._numbers = itertools.count(10)

    def seen(self, pod: Object) -> None:
        """Starts and ends what is of the image; the rest is as for other hollow kubelets."""
        uid = pod["metadata"]["uid"]
        if not pod["spec"]["containers"][0]["image"].startswith(f"{self._image}:") or not pod["spec"].get("nodeName"):
            super().seen(pod)
        elif uid in self.runs:
            if pod["metadata"].get("deletionTimestamp"):
                threading.Thread(target=self.runs[uid].end, daemon=True).start()
        elif not pod["metadata"].get("deletionTimestamp"):
            number = next(self._numbers)
            own = Api(self.api.url, self.api.token, self.api.authority)
            run = self.runs[uid] = PodRun(
                own, pod, number, self._folder / f"{pod['metadata']['name']}-{number}", self.api.url
            )
            run.start()

    def running(self) -> list[str]:
        """Names of pods whose process has not ended."""
        return [run.process.name for run in self.runs.values() if run.process.running]

    def addresses(self, prefix: str) -> list[str]:
        """Where the running pods are whose name begins so."""
        return [
            run.address for run in self.runs.values() if run.process.running and run.process.name.startswith(prefix)
        ]

    def logs(self) -> Mapping[str, str]:
        """What each container has written, by pod."""
        return {run.pod["metadata"]["name"]: run.process.text() for run in self.runs.values()}

    def __exit__(self, *error: object) -> None:
        """Nothing outlives the test."""
        super().__exit__(*error)
        for run in self.runs.values():
            run.abandon()
        for run in self.runs.values():
            run.end()
