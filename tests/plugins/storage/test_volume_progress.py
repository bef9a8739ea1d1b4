"""Whether the volumes that a pod waits for have come about, as the API server shows them."""

from typing import Any

import pytest

from kscheduler.api.codec import convert
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.framework.cluster.volumes import CLAIM, POD, VOLUME
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.storage.volume_binding.claims import Undertaking
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod

Tree = dict[str, Any]

BIND_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}
SELECTED = {"volume.kubernetes.io/selected-node": "node"}
CLAIM_REF = {"namespace": "default", "name": "data", "uid": "claim"}
HERE, ELSEWHERE = "a", "b"
DONE, UNDER_WAY = "done", "under way"
OUT_OF_REACH = 'pv "pv" node affinity doesn\'t match node "node": no matching NodeSelectorTerms'


def volume(zone: str = HERE, *, version: str = "5", ref: Tree | None = CLAIM_REF, name: str = "pv") -> PersistentVolume:
    """A volume of a zone."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}
    spec = {"claimRef": ref, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    return convert(
        {"metadata": {"name": name, "uid": name, "resourceVersion": version}, "spec": spec}, PersistentVolume
    )


def claim(
    volume_name: str = "", notes: dict[str, str] | None = None, *, version: str = "5", uid: str = "claim"
) -> PersistentVolumeClaim:
    """The claim of the pod."""
    meta = {"name": "data", "namespace": "default", "uid": uid, "resourceVersion": version, "annotations": notes or {}}
    return convert({"metadata": meta, "spec": {"volumeName": volume_name}}, PersistentVolumeClaim)


BOUND = claim("pv", BIND_COMPLETED)
PROVISIONED = claim("pv", SELECTED | BIND_COMPLETED)


USER = make_pod("user", node="node", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])


def progress(undertaking: Undertaking, *shown: PersistentVolume | PersistentVolumeClaim, gone: str = "") -> str:
    """What is said where the API server shows these objects, and node or pod may be gone."""
    cache = Cache()
    if gone != "node":
        cache.add_node(make_node("node", labels={"zone": HERE}))
    if gone != "pod":
        cache.add_pod(USER)
    for each in shown:
        cache.volumes.put(each)
    status = undertaking.progress(cache.volumes, cache.nodes)
    if status is None:
        return UNDER_WAY
    return DONE if status.is_success else status.message


def binding(written: PersistentVolume, wanted: PersistentVolumeClaim | None = None) -> Undertaking:
    """A volume that was found and written to."""
    return Undertaking(PodInfo(USER), "node", bindings=[(written, wanted or claim())])


def provision(written: PersistentVolumeClaim) -> Undertaking:
    """A volume that is to be made."""
    return Undertaking(PodInfo(USER), "node", provisions=[written])


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param([volume(), BOUND], DONE, id="both are bound"),
        pytest.param([volume(), claim("pv")], UNDER_WAY, id="the controller has not finished"),
        pytest.param([volume(version="4"), BOUND], UNDER_WAY, id="the watch shows the volume before our write"),
        pytest.param([volume(version="6"), BOUND], DONE, id="the volume has been written to since"),
        pytest.param([volume(ELSEWHERE), BOUND], OUT_OF_REACH, id="the volume is elsewhere now"),
        pytest.param([volume(ref=None), BOUND], 'ClaimRef got reset for pv "pv"', id="the volume is free again"),
        pytest.param(
            [volume(ref={**CLAIM_REF, "uid": ""}), BOUND], 'ClaimRef got reset for pv "pv"', id="the volume is reserved"
        ),
        pytest.param(
            [volume(), claim("other", BIND_COMPLETED)],
            'PVC "data" was bound to another pv "other" instead of "pv"',
            id="another volume was faster",
        ),
        pytest.param([BOUND], 'failed to check binding: persistentvolumes "pv" not found', id="the volume is gone"),
        pytest.param(
            [volume()],
            'failed to check binding: persistentvolumeclaims "default/data" not found',
            id="the claim is gone",
        ),
        pytest.param(
            [volume(), claim("pv", BIND_COMPLETED, uid="again")],
            'failed to check binding: persistentvolumeclaims "default/data" not found',
            id="the claim was made again",
        ),
    ],
)
def test_a_volume_that_was_found(shown: list[PersistentVolume | PersistentVolumeClaim], expected: str) -> None:
    assert progress(binding(volume()), *shown) == expected


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        pytest.param([volume(), PROVISIONED], DONE, id="it was made and bound"),
        pytest.param([claim("", SELECTED)], UNDER_WAY, id="it is being made"),
        pytest.param([volume(), claim("pv", SELECTED)], UNDER_WAY, id="it is made and not bound"),
        pytest.param([PROVISIONED], UNDER_WAY, id="the watch has not shown the volume"),
        pytest.param([volume(ELSEWHERE), PROVISIONED], OUT_OF_REACH, id="it was made elsewhere"),
        pytest.param([claim("", SELECTED, version="4")], UNDER_WAY, id="the watch shows the claim before our write"),
        pytest.param([claim("", version="4")], UNDER_WAY, id="the watch does not show our annotation yet"),
        pytest.param([claim()], 'selectedNode annotation reset for PVC "data"', id="no annotation is left"),
        pytest.param(
            [claim("", {"other": "note"})],
            'provisioning failed for PVC "data"',
            id="the provisioner gave the node back",
        ),
        pytest.param(
            [claim("", {"volume.kubernetes.io/selected-node": "other"})],
            'provisioning failed for PVC "data"',
            id="somebody selected another node",
        ),
        pytest.param(
            [], 'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found', id="it is gone"
        ),
        pytest.param(
            [claim("", SELECTED, uid="again")],
            'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found',
            id="it was made again",
        ),
    ],
)
def test_a_volume_that_is_to_be_made(shown: list[PersistentVolume | PersistentVolumeClaim], expected: str) -> None:
    assert progress(provision(claim("", SELECTED)), *shown) == expected


def test_a_version_that_is_no_number_is_believed() -> None:
    assert progress(binding(volume(version="x9")), volume(version="x1"), BOUND) == DONE
    assert progress(binding(volume(version="9")), volume(version="x1"), BOUND) == DONE


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        ("node", 'failed to get node "node": node "node" not found'),
        ("pod", 'pod does not exist any more: pod "user" not found'),
    ],
)
def test_the_wait_ends_with_the_node_or_the_pod(gone: str, expected: str) -> None:
    assert progress(binding(volume()), volume(), BOUND, gone=gone) == expected


def test_each_volume_must_come_about_and_the_first_trouble_is_named() -> None:
    first, second = volume(), volume(ELSEWHERE, name="second")
    pod = PodInfo(USER)
    both = Undertaking(pod, "node", bindings=[(first, claim()), (second, claim())], provisions=[claim("", SELECTED)])
    assert progress(both, first, second, BOUND).startswith('pv "second" node affinity')
    mixed = Undertaking(pod, "node", bindings=[(first, claim())], provisions=[claim("", SELECTED)])
    assert progress(mixed, first, BOUND) == 'provisioning failed for PVC "data"'
    assert progress(mixed, first, PROVISIONED) == DONE


def test_it_listens_to_whatever_it_looks_at() -> None:
    pod = PodInfo(USER)
    undertaking = Undertaking(pod, "node", bindings=[(volume(), claim())], provisions=[claim()])
    claims = (CLAIM, "default/data")
    assert list(undertaking.subjects()) == [(POD, "uid-of-user"), (VOLUME, "pv"), claims, claims]
