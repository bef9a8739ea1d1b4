"""Which claim cannot be served on which nodes, and what it would need there.

Used for explanations only. Each claim is placed separately by the filter's own rule. Claims may also compete (two
claims for one local disk): rows that no single claim explains are reported so.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from kscheduler.api.core import NodeSelector
from kscheduler.api.quantity import value
from kscheduler.api.selectors import parse_node_term
from kscheduler.api.storage import (
    NO_PROVISIONER,
    STORAGE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolumeClaim,
)
from kscheduler.framework.cluster.volumes import Volumes, claim_names
from kscheduler.framework.nodes.node_table import Rows
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.framework.reasons.details import Detail
from kscheduler.framework.reasons.wording import bytes_text, term_text
from kscheduler.plugins.storage.volume_binding.claims import PodClaims, selected_node
from kscheduler.plugins.storage.volume_binding.placement import (
    BIND_CONFLICT,
    NODE_CONFLICT,
    NOT_ENOUGH_SPACE,
    VOLUME_MISSING,
    Storage,
    place,
)

_KINDS: Final = {
    NODE_CONFLICT: "volumeUnreachable",
    BIND_CONFLICT: "claimNotServed",
    NOT_ENOUGH_SPACE: "notEnoughStorage",
    VOLUME_MISSING: "volumeMissing",
}


def claim_details(claims: PodClaims, storage: Storage, rows: Rows) -> Iterator[Detail]:
    """The rows where each claim cannot be served, with the reason."""
    explained = np.zeros(len(rows), dtype=np.bool_)
    for single in _each_separately(claims):
        bits, _ = place(single, storage, rows)
        (claim,) = (*single.bound, *single.delayed)
        if bits is None:
            continue
        for bit, kind in _KINDS.items():
            has_bit = np.bitwise_and(bits, bit) != 0
            if has_bit.any():
                explained |= has_bit
                text = _text(bit, claim, storage.volumes)
                yield Detail(kind, text, rows[has_bit], _facts(claim, storage.volumes))
    if not explained.all():
        names = [claim.metadata.name for claim in (*claims.bound, *claims.delayed)]
        text = f"the claims {', '.join(names)} cannot all be served here, though each of them could be by itself"
        yield Detail("claimsCompete", text, rows[~explained], {"claims": names})


def _each_separately(claims: PodClaims) -> Iterator[PodClaims]:
    yield from (PodClaims(bound=(claim,)) for claim in claims.bound)
    yield from (PodClaims(delayed=(claim,)) for claim in claims.delayed)


def unready_claims(pod: PodInfo, volumes: Volumes) -> Iterator[Detail]:
    """Claims for which the pod has to wait, whatever the node."""
    no_rows = np.zeros(0, dtype=np.intp)
    for name in dict.fromkeys(claim_names(pod.pod)):
        claim = volumes.claim(pod.namespace, name)
        if claim is None:
            yield Detail("claimMissing", f"claim {name} does not exist", no_rows, {"claim": name})
        elif not claim.is_fully_bound and not _waits_for_consumer(claim, volumes):
            text = f"claim {name} ({_described(claim)}){_why_unbound(claim, volumes)}"
            yield Detail("claimUnbound", text, no_rows, _facts(claim, volumes))


def _why_unbound(claim: PersistentVolumeClaim, volumes: Volumes) -> str:
    """Why a claim that waits for no pod has no volume, to stand behind its name."""
    if not claim.storage_class:
        return ", without a storage class, is not bound yet: a provisioner or a volume is missing"
    if volumes.storage_class(claim.storage_class) is None:
        # A volume that is there may be of a class that nobody has made; nobody makes one.
        return f": StorageClass {claim.storage_class} does not exist, and no volume that is there is bound to it"
    return ", which binds at once, is not bound yet: a provisioner or a volume is missing"


def _waits_for_consumer(claim: PersistentVolumeClaim, volumes: Volumes) -> bool:
    found = volumes.storage_class(claim.storage_class) if claim.storage_class else None
    return found is not None and found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _text(bit: int, claim: PersistentVolumeClaim, volumes: Volumes) -> str:
    name, volume_name = claim.metadata.name, claim.spec.volume_name
    if bit == VOLUME_MISSING:
        return f"claim {name} is bound to volume {volume_name}, which does not exist"
    if bit == NODE_CONFLICT:
        volume = volumes.volume(volume_name)
        required = volume.spec.node_affinity.required if volume is not None and volume.spec.node_affinity else None
        return f"volume {volume_name} of claim {name} can be reached only from nodes with {_terms(required)}"
    if bit == NOT_ENOUGH_SPACE:
        return (
            f"claim {name} ({_described(claim)}): the driver reports no capacity for that here{_most(claim, volumes)}"
        )
    return f"claim {name} ({_described(claim)}): {_why_not_served(claim, volumes)}"


def _why_not_served(claim: PersistentVolumeClaim, volumes: Volumes) -> str:
    chosen = selected_node(claim)
    if chosen is not None:
        return f"its volume is to be made for node {chosen} (annotation selected-node), and on no other node"
    storage_class = volumes.storage_class(claim.storage_class)
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return "no free volume that fits can be reached from here, and its class has no provisioner to make one"
    topologies = " or ".join(
        ",".join(f"{label.key} in ({', '.join(label.values)})" for label in term.match_label_expressions)
        for term in storage_class.allowed_topologies
    )
    return f"its class makes volumes only where {topologies}" if topologies else "its volume cannot be made here"


def _terms(required: NodeSelector | None) -> str:
    terms = required.node_selector_terms if required is not None else ()
    return " or ".join(term_text(parse_node_term(term)) for term in terms) or "what its driver says"


def _most(claim: PersistentVolumeClaim, volumes: Volumes) -> str:
    limits = [value(each.limit) for each in volumes.capacities(claim.storage_class) if each.limit is not None]
    return f" (the most anywhere is {bytes_text(max(limits))})" if limits else ""


def _described(claim: PersistentVolumeClaim) -> str:
    size = claim.spec.resources.requests.get(STORAGE)
    parts = [str(size)] if size is not None else []
    return ", ".join([*parts, f"class {claim.storage_class}" if claim.storage_class else "no class"])


def _facts(claim: PersistentVolumeClaim, volumes: Volumes) -> dict[str, Any]:
    storage_class = volumes.storage_class(claim.storage_class) if claim.storage_class else None
    return {
        "claim": claim.metadata.name,
        "volume": claim.spec.volume_name,
        "storageClass": claim.storage_class,
        "provisioner": storage_class.provisioner if storage_class is not None else "",
        "requested": str(claim.spec.resources.requests.get(STORAGE, "")),
        "selectedNode": selected_node(claim) or "",
    }
