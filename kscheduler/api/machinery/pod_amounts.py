"""What the containers of a pod ask for together, before any pod-level amounts: requests or limits, by resource.

Sidecars (init containers that are restarted always) run beside the others and are added to them. Each other init
container runs alone but for the sidecars before it, so that the largest such step counts where it is more.
"""

from collections.abc import Mapping
from typing import Any

from kscheduler.api.machinery.api_errors import Object
from kscheduler.cel.kubernetes import quantities

Amounts = dict[str, quantities.Quantity]

_AT_POD_LEVEL = frozenset({"cpu", "memory"})
# As the server lists them.
SUPPORTED_AT_POD_LEVEL = ("cpu", "hugepages-", "memory")
HUGE_PAGES = "hugepages-"


def may_be_pod_level(name: str) -> bool:
    """Whether a whole pod may ask for the resource."""
    return name in _AT_POD_LEVEL or name.startswith(HUGE_PAGES)


def read(amounts: Mapping[str, Any]) -> Amounts:
    """The amounts of one container. Raises `QuantityTextError`."""
    return {name: quantities.read(amount) for name, amount in amounts.items()}


def of_containers(spec: Object, field: str) -> Amounts:
    """`requests` or `limits` of all containers together. Raises `QuantityTextError`."""
    total: Amounts = {}
    sidecars: Amounts = {}
    largest_step: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _of(container, field))
    for container in spec.get("initContainers") or ():
        own = _of(container, field)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            step = sidecars
        else:
            step = dict(own)
            _add(step, sidecars)
        _raise_to(largest_step, step)
    _raise_to(total, largest_step)
    return total


def of_pod(spec: Object, field: str) -> Amounts:
    """`requests` or `limits` of a pod: its own where it has some, else those of its containers together."""
    own = read((spec.get("resources") or {}).get(field) or {})
    return of_containers(spec, field) | {name: amount for name, amount in own.items() if may_be_pod_level(name)}


def _of(container: Object, field: str) -> Amounts:
    return read((container.get("resources") or {}).get(field) or {})


def _add(total: Amounts, added: Amounts) -> None:
    for name, amount in added.items():
        known = total.get(name)
        total[name] = amount.fresh() if known is None else known.plus(amount, sign=1, shared=False)


def _raise_to(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        known = total.get(name)
        if known is None or known.fresh().compare(amount.fresh()) < 0:
            total[name] = amount
