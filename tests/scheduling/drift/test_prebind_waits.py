"""What a pod with a node waits for in PreBind is read from its claims."""

from dataclasses import replace

import msgspec
import pytest

from kscheduler.api.codec import convert
from kscheduler.api.devices import ResourceClaim
from kscheduler.api.storage import SELECTED_NODE, PersistentVolumeClaim
from kscheduler.config.durations import seconds
from kscheduler.config.loader import default_configuration
from kscheduler.config.plugin_args import DynamicResourcesArgs
from kscheduler.config.types import PluginConfig
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.drift.prebind_waits import ClaimsNow, binding_timeout, device_waits
from kscheduler.state.cache import Cache
from tests.builders import make_node, make_pod

WEB = make_pod("web", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])


def claim(*, reported: str, user: str = WEB.metadata.uid) -> ResourceClaim:
    """A claim with a device that names two conditions, of which one was reported with this status."""
    device = {"driver": "d", "pool": "p", "device": "x"}
    result = {**device, "request": "r", "bindingConditions": ["Attached", "Warm"]}
    condition = {"type": "Attached", "status": reported, "reason": "r", "message": ""}
    status = {
        "allocation": {"devices": {"results": [result]}, "allocationTimestamp": "2026-01-01T00:00:00Z"},
        "reservedFor": [{"resource": "pods", "name": "web", "uid": user}],
        "devices": [{**device, "conditions": [condition]}],
    }
    return convert({"metadata": {"name": "c", "namespace": "default"}, "status": status}, ResourceClaim)


@pytest.mark.parametrize(("reported", "missing"), [("True", ("Warm",)), ("False", ("Attached", "Warm"))])
def test_a_device_is_waited_for_until_all_its_conditions_are_true(reported: str, missing: tuple[str, ...]) -> None:
    (wait,) = device_waits(WEB, [claim(reported=reported)], 90.0)
    assert (wait.device, wait.conditions) == ("d/p/x", missing)
    assert (wait.since, wait.until) == ("2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z")


def test_a_claim_that_is_reserved_for_others_is_not_waited_for() -> None:
    assert not device_waits(WEB, [claim(reported="False", user="another")])


def test_how_long_a_pod_waits_is_configured_by_profile() -> None:
    loaded = default_configuration("red")
    (profile,) = loaded.configuration.profiles
    args = PluginConfig("DynamicResources", DynamicResourcesArgs(binding_timeout=seconds(5)))
    others = tuple(each for each in profile.plugin_config if each.name != "DynamicResources")
    changed = msgspec.structs.replace(profile, plugin_config=(*others, args))
    configuration = msgspec.structs.replace(loaded.configuration, profiles=(changed,))
    of_five = replace(loaded, configuration=configuration)
    assert (binding_timeout(loaded, "red"), binding_timeout(of_five, "red")) == (600.0, 5.0)


def test_a_pod_on_its_node_waits_for_a_volume_that_is_being_made() -> None:
    cache = Cache()
    cache.add_node(make_node("n"))
    now = ClaimsNow(cache, lambda: default_configuration("default-scheduler"))
    annotated = {"name": "data", "namespace": "default", "annotations": {SELECTED_NODE: "n"}}
    cache.volumes.put(convert({"metadata": annotated, "spec": {"storageClassName": "fast"}}, PersistentVolumeClaim))
    assert now.waits(WEB) == ""
    cache.assume_pod(PodInfo(WEB), "n")
    assert now.waits(WEB) == "has node n, and waits in PreBind for the volume of claim data, which is being made"
