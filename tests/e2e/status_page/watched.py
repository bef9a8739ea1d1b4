"""A kscheduler process on an embedded API server, whose status page a browser looks at."""

import asyncio
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self
from uuid import uuid4

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from tests.controlplane import kscheduler_process, kubeconfig
from tests.controlplane.kscheduler_process import PLAIN, http_port, own_page
from tests.controlplane.process import Process, wait_until
from tests.controlplane.rest import Api

SECONDS: Final = 60.0
Tree = dict[str, Any]

_DEVICES = "resource.k8s.io/v1"
_KINDS = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "deviceclasses.resource.k8s.io": (_DEVICES, "DeviceClass"),
    "resourceslices.resource.k8s.io": (_DEVICES, "ResourceSlice"),
    "resourceclaims.resource.k8s.io": (_DEVICES, "ResourceClaim"),
}


class StoredCluster:
    """An embedded API server on an event loop in a thread; objects are put into its store as they are."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="embedded-apiserver", daemon=True)
        self.server = EmbeddedAPIServer(seed=1)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.start(), self._loop).result(SECONDS)
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self.server.aclose(), self._loop).result(SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def put(self, collection: str, trees: Iterable[Tree]) -> None:
        """Store objects: no admission, no validation. They get a uid where they have none, as the server gives them."""
        version, kind = _KINDS[collection]
        values = [
            {**tree, "apiVersion": version, "kind": kind, "metadata": {"uid": str(uuid4()), **tree["metadata"]}}
            for tree in trees
        ]

        async def store() -> None:
            for at, value in enumerate(values):
                self.server.store.put(collection, value)
                if at % 500 == 0:
                    await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(store(), self._loop).result(10 * SECONDS)

    def remove_pod(self, namespace: str, name: str) -> None:
        """Delete a pod at once."""

        async def remove() -> None:
            self.server.store.remove("pods", (namespace, name))

        asyncio.run_coroutine_threadsafe(remove(), self._loop).result(SECONDS)

    def grant(self, user: str, *paths: str) -> None:
        """Let a user get paths, as an administrator would."""
        api, group = Api(self.server.url), "rbac.authorization.k8s.io"
        head = {"apiVersion": f"{group}/v1", "metadata": {"name": "reads-pages"}}
        rules = [{"nonResourceURLs": list(paths), "verbs": ["get"]}]
        base = f"/apis/{group}/v1"
        api.request("POST", f"{base}/clusterroles", {**head, "kind": "ClusterRole", "rules": rules})
        reference = {"apiGroup": group, "kind": "ClusterRole", "name": "reads-pages"}
        subject = {"apiGroup": group, "kind": "User", "name": user}
        binding = {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": [subject]}
        api.request("POST", f"{base}/clusterrolebindings", binding)
        api.close()

    def node_of(self, namespace: str, name: str) -> str:
        """Where a pod is; empty: nowhere."""
        found = self.server.store.get("pods", namespace, name)
        return "" if found is None else str(found.value["spec"].get("nodeName") or "")


@dataclass
class Watched:
    """Both, and where the page is."""

    cluster: StoredCluster
    process: Process
    url: str

    def page(self, path: str) -> str:
        """The text of a page, without a browser."""
        return own_page(self.process, path)[1]

    def wait_for(self, path: str, *texts: str) -> None:
        """Until the page says all of this."""
        wait_until(f"{path} says {texts}", lambda: all(text in self.page(path) for text in texts), SECONDS)


@contextmanager
def watched(
    folder: Path, nodes: Iterable[Tree], pods: Iterable[Tree] = (), *options: str, ports: Sequence[str] = PLAIN
) -> Iterator[Watched]:
    """Everything running and synced."""
    with StoredCluster() as cluster:
        cluster.put("nodes", nodes)
        cluster.put("pods", pods)
        path = folder / "kubeconfig.json"
        kubeconfig.write(path, server=cluster.server.url)
        process = kscheduler_process.process(path, folder, *options, ports=ports)
        process.start()
        try:
            process.wait_until("its HTTP server listens", lambda: http_port(process) is not None, SECONDS)
            process.wait_until("it is ready", lambda: own_page(process, "/readyz")[0] == 200, SECONDS)
            scheme = "http" if ports == PLAIN else "https"
            yield Watched(cluster, process, f"{scheme}://127.0.0.1:{http_port(process)}")
        finally:
            process.stop()


def created(seconds_ago: float) -> str:
    """A creationTimestamp."""
    return (datetime.now(UTC) - timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")
