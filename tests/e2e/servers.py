"""The two API servers that the suite runs on, seen alike: real ones as processes, the embedded one in a thread."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from tests.controlplane import kscheduler_process, kube_scheduler
from tests.controlplane.binaries import Binaries
from tests.controlplane.controlplane import ControlPlane, Settings
from tests.controlplane.process import Process
from tests.controlplane.rest import Api

NAME = "kscheduler"


class Server(ABC):
    """An API server with what scenarios do to it."""

    api: Api
    """The administrator's client."""
    kubectl: Path
    admin_kubeconfig: Path

    @abstractmethod
    def __enter__(self) -> Self:
        """Starts the server."""

    @abstractmethod
    def __exit__(self, *error: object) -> None:
        """Stops the server."""

    @abstractmethod
    def stop_serving(self) -> None:
        """Cuts every connection and refuses new ones; the data stays."""

    @abstractmethod
    def serve_again(self) -> None:
        """Serves at the same address, with the same data, but without memory of earlier watches."""

    @abstractmethod
    def forget_history(self) -> None:
        """Every resource version but the present one becomes too old (410). Called while not serving."""

    @abstractmethod
    def identity(self, program: str) -> Path:
        """A kubeconfig with the permissions of the scheduler under test."""

    @abstractmethod
    def scheduler(self, program: str, folder: Path) -> Process:
        """The scheduler under test, not yet started, for pods that name `kscheduler`."""


class RealServer(Server):
    """etcd, kube-apiserver and kube-controller-manager."""

    def __init__(self, binaries: Binaries, settings: Settings | None = None) -> None:
        self.plane = ControlPlane(binaries, settings)
        self.api = self.plane.api
        self.kubectl = binaries.kubectl
        self.admin_kubeconfig = self.plane.admin_kubeconfig
        self._kscheduler_kubeconfig: Path | None = None

    def __enter__(self) -> Self:
        self.plane.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.plane.stop()

    def stop_serving(self) -> None:
        self.plane.stop_apiserver()

    def serve_again(self) -> None:
        self.plane.start_apiserver()

    def forget_history(self) -> None:
        # kube-apiserver answers from its watch cache; that one is empty after the restart, and then etcd is asked.
        self.plane.compact()

    def identity(self, program: str) -> Path:
        return self.kscheduler_kubeconfig() if program == "kscheduler" else self.plane.kube_scheduler_kubeconfig

    def scheduler(self, program: str, folder: Path) -> Process:
        identity = self.identity(program)
        if program == "kube-scheduler":
            return kube_scheduler.process(self.plane.binaries, identity, folder, NAME)
        return kscheduler_process.process(identity, folder, scheduler_name=NAME)

    def kscheduler_kubeconfig(self) -> Path:
        """With the permissions of `deploy/kscheduler.yaml`, which are applied once."""
        if self._kscheduler_kubeconfig is None:
            self._kscheduler_kubeconfig = self.plane.kscheduler_kubeconfig()
        return self._kscheduler_kubeconfig
