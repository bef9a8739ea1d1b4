"""A watch on all pods that survives restarts of the API server and compaction, in a thread of its own.

Two users: the recorder of the end-to-end suite, which remembers every node a pod was ever seen with, and the hollow
kubelets. Either gets each pod as it was last seen; after a lost history (410) the pods are listed again, and pods that
went away meanwhile are reported as deleted.
"""

import http.client
import threading
from abc import ABC, abstractmethod
from typing import Self

from tests.controlplane.rest import Api, ApiStatusError, Object, WatchStream

RETRY_SECONDS = 0.2
GONE = 410


class HistoryLostError(Exception):
    """The API server no longer knows the changes since the version asked for."""


class PodWatch(ABC):
    """Calls `seen` and `deleted` from its thread, from `start` to `stop`."""

    def __init__(self, api: Api, name: str) -> None:
        self.api = Api(api.url, api.token, api.authority)
        self.relists = 0
        self._known: dict[str, Object] = {}
        self._version = ""
        self._stream: WatchStream | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def seen(self, pod: Object) -> None:
        """A pod is new, or has changed."""

    @abstractmethod
    def deleted(self, pod: Object) -> None:
        """A pod is gone; this is its last known state."""

    def __enter__(self) -> Self:
        self._list()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._stream is not None:
            self._stream.cut()
        self._thread.join(timeout=30)
        self.api.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except HistoryLostError:
                self._version = ""
            except (OSError, http.client.HTTPException, ApiStatusError):
                self._stopping.wait(RETRY_SECONDS)
        self.api.close()

    def _follow(self) -> None:
        if not self._version:
            self._list()
        parameters = {"resourceVersion": self._version, "allowWatchBookmarks": "true"}
        try:
            with self.api.watch("/api/v1/pods", parameters) as self._stream:
                for event in self._stream:
                    self._take(event)
        except ApiStatusError as error:
            if error.code == GONE:
                raise HistoryLostError from error
            raise
        self._stopping.wait(RETRY_SECONDS)

    def _list(self) -> None:
        answer = self.api.get("/api/v1/pods")
        present = {pod["metadata"]["uid"]: pod for pod in answer["items"]}
        for uid in self._known.keys() - present.keys():
            self.deleted(self._known.pop(uid))
        for uid, pod in present.items():
            self._known[uid] = pod
            self.seen(pod)
        self._version = answer["metadata"]["resourceVersion"]
        self.relists += 1

    def _take(self, event: Object) -> None:
        kind, subject = event["type"], event["object"]
        if kind == "ERROR":
            raise HistoryLostError(subject.get("message", ""))
        if kind == "DELETED":
            self._known.pop(subject["metadata"]["uid"], None)
            self.deleted(subject)
        elif kind != "BOOKMARK":
            self._known[subject["metadata"]["uid"]] = subject
            self.seen(subject)
        # Last, so that an event whose handling failed for want of an API server comes again.
        self._version = subject["metadata"]["resourceVersion"]
