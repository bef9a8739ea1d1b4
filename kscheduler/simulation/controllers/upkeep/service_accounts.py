"""Each namespace has a ServiceAccount called `default`, which pods run as that name none."""

from collections.abc import Iterator, Mapping

from kscheduler.simulation.controllers.engine.plan import Concerned, Create, Plan
from kscheduler.simulation.controllers.engine.view import View
from kscheduler.simulation.kinds.resources import NAMESPACES, SERVICE_ACCOUNTS, ServedResource
from kscheduler.simulation.objects.store import Change, ChangeType, Key

_NAME = "default"


class ServiceAccountController:
    """Keyed by the ServiceAccount that should be there."""

    name = "serviceaccount-controller"

    def watched(self) -> Mapping[ServedResource, Concerned]:
        """Namespaces, and ServiceAccounts that go."""
        return {NAMESPACES: self._of_namespace, SERVICE_ACCOUNTS: self._gone}

    def _of_namespace(self, view: View, change: Change) -> Iterator[Key]:
        del view
        if change.type is not ChangeType.DELETED:
            yield change.key[1], _NAME

    def _gone(self, view: View, change: Change) -> Iterator[Key]:
        del view
        if change.type is ChangeType.DELETED and change.key[1] == _NAME:
            yield change.key

    def reconcile(self, view: View, key: Key) -> Plan:
        """Make it where it is missing."""
        namespace = view.get(NAMESPACES, ("", key[0]))
        is_alive = namespace is not None and "deletionTimestamp" not in namespace["metadata"]
        if not is_alive or view.get(SERVICE_ACCOUNTS, key) is not None:
            return Plan()
        metadata = {"name": key[1], "namespace": key[0]}
        return Plan([Create(SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})])
