"""What is said of claims that keep a pod waiting wherever it would go."""

from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.storage import PersistentVolumeClaim, StorageClass
from kscheduler.plugins.storage.volume_binding.details import unready_claims
from kscheduler.state.cache import Cache
from tests.builders import pod_info

Tree = dict[str, Any]
GIBIBYTE = {"requests": {"storage": "1Gi"}}


def said(claim: Tree | None, mode: str = "Immediate", notes: dict[str, str] | None = None) -> list[str]:
    """Of the pod's claim, where there is the class `fast` with this mode."""
    volumes = Cache().volumes
    volumes.put(convert({"metadata": {"name": "fast"}, "volumeBindingMode": mode}, StorageClass))
    if claim is not None:
        meta = {"name": "data", "namespace": "default", "annotations": notes or {}}
        volumes.put(convert({"metadata": meta, "spec": claim}, PersistentVolumeClaim))
    pod = pod_info(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    return [detail.text for detail in unready_claims(pod, volumes)]


MISSING = "is not bound yet: a provisioner or a volume is missing"


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        pytest.param(None, "claim data does not exist", id="missing"),
        pytest.param(
            {"storageClassName": "fast", "resources": GIBIBYTE},
            f"claim data (1Gi, class fast), which binds at once, {MISSING}",
            id="of a class",
        ),
        pytest.param(
            {"storageClassName": "", "resources": GIBIBYTE},
            f"claim data (1Gi, no class), without a storage class, {MISSING}",
            id="of none",
        ),
        pytest.param({}, f"claim data (no class), without a storage class, {MISSING}", id="of no size"),
    ],
)
def test_a_claim_that_is_not_ready_is_described(claim: Tree | None, text: str) -> None:
    assert said(claim) == [text]


def test_nothing_is_said_of_claims_that_are_bound_or_wait_for_the_pod() -> None:
    assert said({"storageClassName": "fast"}, "WaitForFirstConsumer") == []
    assert said({"volumeName": "pv"}, notes={"pv.kubernetes.io/bind-completed": "yes"}) == []
