"""A scenario for each kind of change that the random scenarios do not have: it is found, it holds, it is said."""

import gzip
import itertools
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from kscheduler.cli import main
from kscheduler.explain.situation import NO_SITUATION
from kscheduler.explain.suggestions.suggestion_rules import suggested
from kscheduler.scenario.decide import decide
from kscheduler.scenario.scenario import parse_scenario
from tests.effort import IS_LONG, sampled
from tests.explain.as_json import suggestion_trees
from tests.explain.scenarios import Tree, node_tree, pod_tree
from tests.explain.suggestions.applied import applied, suggestions_for
from tests.explain.suggestions.random_scenarios import decided, feasible

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = "topology.kubernetes.io/zone"
VECTORS = Path(__file__).parents[2] / "vectors"
FAMILIES = sorted(path.name.removesuffix(".jsonl.gz") for path in VECTORS.glob("*.jsonl.gz"))


def scenario(pod: Tree, **more: Any) -> Tree:
    """Objects by resource; `gates` are those of the line."""
    gates = more.pop("gates", {})
    return {"id": "one", "config": None, "gates": gates, "objects": {"pods": [], **more}, "pod": pod}


def suggested_for(tree: Tree) -> dict[str, Tree]:
    """The suggestions by kind, the best of each. Each of them holds."""
    found = suggestions_for(tree)
    assert found
    for suggestion in found:
        if suggestion["changes"]:
            assert feasible(applied(tree, suggestion)) == suggestion["nodes"], suggestion["text"]
    return {suggestion["kind"]: suggestion for suggestion in reversed(found)}


def labelled(name: str, labels: Tree, **spec: Any) -> Tree:
    node = node_tree(name, **spec)
    node["metadata"]["labels"] = {"kubernetes.io/hostname": name, **labels}
    return node


def claim_tree(name: str = "data", **spec: Any) -> Tree:
    requests = {"requests": {"storage": "10Gi"}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests, "volumeMode": "Filesystem", **spec},
    }


def volume_tree(name: str, zone: str = "", **spec: Any) -> Tree:
    tree: Tree = {"metadata": {"name": name}, "spec": {"capacity": {"storage": "10Gi"}, **spec}}
    tree["spec"]["accessModes"] = ["ReadWriteOnce"]
    if zone:
        expressions = [{"key": ZONE, "operator": "In", "values": [zone]}]
        tree["metadata"]["labels"] = {ZONE: zone}
        tree["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    return tree


def class_tree(name: str, **more: Any) -> Tree:
    return {
        "metadata": {"name": name},
        "provisioner": "csi.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        **more,
    }


CLAIMED = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


# --- volumes ----------------------------------------------------------------------------------------------------------


def bound(tree: Tree, volume: str) -> Tree:
    tree["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    tree["spec"]["volumeName"] = volume
    return tree


def test_the_data_of_a_claim_could_be_in_another_zone() -> None:
    volume = volume_tree("pv", "a", claimRef={"namespace": "default", "name": "data", "uid": "data"})
    found = suggested_for(
        scenario(
            pod_tree(cpu="3", volumes=CLAIMED),
            nodes=[labelled("a", {ZONE: "a"}, cpu="1"), labelled("b", {ZONE: "b"}), labelled("c", {ZONE: "b"})],
            persistentvolumes=[volume],
            persistentvolumeclaims=[bound(claim_tree(storageClassName=""), "pv")],
        )
    )
    assert found["claimZone"]["text"] == "move the data of volume pv of claim data to a volume in zone b"
    assert (found["claimZone"]["nodes"], found["claimZone"]["command"]) == (2, "")


def test_a_claim_could_ask_for_less_or_be_of_another_class() -> None:
    capacity = {
        "metadata": {"name": "c", "namespace": "kube-system"},
        "storageClassName": "fast",
        "nodeTopology": {},
        "capacity": "4Gi",
    }
    driver = {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}}
    found = suggested_for(
        scenario(
            pod_tree(volumes=CLAIMED),
            nodes=[node_tree("a")],
            persistentvolumeclaims=[claim_tree(storageClassName="fast")],
            storageclasses=[class_tree("fast"), class_tree("slow", provisioner="other.example.com")],
            csidrivers=[driver],
            csistoragecapacities=[capacity],
        )
    )
    assert found["claimSize"]["text"] == "request 4Gi in claim data instead of 10Gi"
    assert found["claimClass"]["steps"][0]["facts"]["to"] == "slow"
    assert "kubectl get pvc data -n default -o yaml | kubectl patch --local" in found["claimSize"]["command"]


def other_class(pod: Tree, claim: str) -> Tree:
    """The pod waits for a claim of a class that makes no volumes here; another class would."""
    return suggested_for(
        scenario(
            pod,
            nodes=[labelled("a", {ZONE: "a"})],
            persistentvolumeclaims=[claim_tree(claim, storageClassName="fast")],
            storageclasses=[
                class_tree("fast", allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}]),
                class_tree("slow"),
            ],
        )
    )["claimClass"]


def of_a_set(name: str, claim: str) -> Tree:
    pod = pod_tree(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}])
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "1", "controller": True}
    pod["metadata"]["ownerReferences"] = [owner]
    return pod


def test_a_claim_that_a_stateful_set_makes_comes_back_as_it_was_so_its_template_is_named() -> None:
    found = other_class(of_a_set("db-0", "data-db-0"), "data-db-0")
    assert found["command"] == ""
    assert found["commandNote"] == (
        "no single command does it: claim data-db-0 is made from volumeClaimTemplate data of statefulset/db, which "
        "cannot be changed in place: delete it with --cascade=orphan, apply it with the changed template, then "
        "delete claim data-db-0 and pod db-0; claims of other replicas are made from it, too"
    )
    by_another = of_a_set("db-0", "data-db-0")
    by_another["metadata"]["ownerReferences"][0]["apiVersion"] = "apps.kruise.io/v1beta1"
    assert "statefulset/db has set: change it there" in other_class(by_another, "data-db-0")["commandNote"]
    assert other_class(of_a_set("db-0", "shared"), "shared")["command"].startswith("kubectl get pvc shared -n default")


def test_a_claim_of_an_ephemeral_volume_is_changed_in_the_pod() -> None:
    claim = claim_tree("web-scratch", storageClassName="fast")
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim["spec"]}}}
    tree = scenario(
        pod_tree(volumes=[volume]),
        nodes=[node_tree("a")],
        persistentvolumeclaims=[claim],
        storageclasses=[class_tree("slow")],
    )
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web", "controller": True}
    claim["metadata"]["ownerReferences"] = [owner]
    found = suggested_for(tree)["claimClass"]
    assert found["command"] == ""
    assert found["commandNote"] == (
        "claim web-scratch is made from the volumeClaimTemplate of the pod's ephemeral volume scratch: change that "
        "one, and make the pod again"
    )


def test_a_class_could_make_volumes_in_all_zones() -> None:
    topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}]
    found = suggested_for(
        scenario(
            pod_tree(volumes=CLAIMED),
            nodes=[labelled("a", {ZONE: "a"})],
            persistentvolumeclaims=[claim_tree(storageClassName="fast")],
            storageclasses=[class_tree("fast", allowedTopologies=topologies)],
        )
    )
    assert "make volumes anywhere" in found["storageClassTopology"]["text"]
    assert found["storageClassTopology"]["command"].startswith("kubectl get storageclass fast -o yaml | kubectl patch")


def using(name: str, claim: str, node: str) -> Tree:
    return pod_tree(
        name, cpu="1m", nodeName=node, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    )


def test_who_uses_a_claim_for_one_pod_only_would_have_to_go() -> None:
    """All of them, were there several; and they need not be on the node that then fits."""
    claim = bound(claim_tree(storageClassName="", accessModes=["ReadWriteOncePod"]), "pv")
    users = [using("one", "data", "full"), using("two", "data", "full")]
    tree = scenario(
        pod_tree(cpu="3", volumes=CLAIMED),
        nodes=[node_tree("full", cpu="2"), node_tree("free")],
        pods=users,
        persistentvolumes=[volume_tree("pv")],
        persistentvolumeclaims=[claim],
    )
    assert suggested_for(tree)["deletePods"]["command"] == "kubectl delete pod -n default one two"
    tree["objects"]["pods"] = users[:1]
    assert suggested_for(tree)["deletePods"]["command"] == "kubectl delete pod -n default one"


def test_a_volume_that_no_pod_uses_could_be_detached() -> None:
    def csi(name: str) -> Tree:
        return volume_tree(name, csi={"driver": "csi.example.com", "volumeHandle": name})

    attachment = {
        "metadata": {"name": "left"},
        "spec": {"attacher": "csi.example.com", "nodeName": "a", "source": {"persistentVolumeName": "old"}},
    }
    limit = {"name": "csi.example.com", "nodeID": "a", "allocatable": {"count": 1}}
    found = suggested_for(
        scenario(
            pod_tree(volumes=CLAIMED),
            nodes=[node_tree("a")],
            persistentvolumes=[csi("old"), csi("pv")],
            persistentvolumeclaims=[bound(claim_tree(storageClassName=""), "pv")],
            csinodes=[{"metadata": {"name": "a"}, "spec": {"drivers": [limit]}}],
            volumeattachments=[attachment],
        )
    )
    assert found["detachVolume"]["command"] == "kubectl delete volumeattachment left"


# --- devices ----------------------------------------------------------------------------------------------------------


def device_scenario(exactly: Tree, *, held: int = 0, **devices: Tree) -> Tree:
    """A node with devices of class gpu, of which the first are held by a claim of pod `other`, and a class fpga."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", **exactly}}
    own = {"metadata": {"name": "mine", "namespace": "default", "uid": "mine"}}
    results = [
        {"request": "r", "driver": "gpu.example.com", "pool": "a", "device": name} for name in list(devices)[:held]
    ]
    theirs = {
        "metadata": {"name": "theirs", "namespace": "default", "uid": "theirs"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "other", "uid": "uid-other"}],
        },
    }
    drivers = {"gpu": "gpu.example.com", "fpga": "fpga.example.com"}
    return scenario(
        pod_tree(resourceClaims=[{"name": "c", "resourceClaimName": "mine"}]),
        nodes=[node_tree("a")],
        pods=[pod_tree("other", cpu="1m", nodeName="a")] if held else [],
        resourceclaims=[{**own, "spec": {"devices": {"requests": [request]}}}, *([theirs] if held else [])],
        deviceclasses=[
            {
                "metadata": {"name": name},
                "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]},
            }
            for name, driver in drivers.items()
        ],
        resourceslices=[
            {
                "metadata": {"name": name},
                "spec": {
                    "driver": driver,
                    "nodeName": "a",
                    "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": device, **more} for device, more in devices.items()],
                },
            }
            for name, driver in drivers.items()
        ],
    )


def test_a_request_could_be_for_fewer_devices_or_for_others() -> None:
    tree = device_scenario({"count": 3}, one={}, two={})
    found = suggested_for(tree)
    assert found["deviceCount"]["text"] == "ask for 2 devices instead of 3 in request r of claim mine"
    assert "kubectl get resourceclaim mine -n default -o yaml" in found["deviceCount"]["command"]
    tree["objects"]["resourceslices"][1]["spec"]["devices"].append({"name": "three"})
    assert suggested_for(tree)["deviceClass"]["steps"][0]["facts"]["to"] == "fpga"


def test_a_request_could_be_for_all_devices_or_one() -> None:
    tree = device_scenario({"allocationMode": "All"}, held=1, one={}, two={})
    assert suggested_for(tree)["deviceCount"]["text"].startswith("ask for 1 device instead of all devices")


def test_a_selector_could_go_and_a_taint_be_tolerated() -> None:
    selector = {"cel": {"expression": "device.attributes['gpu.example.com'].model == 'b'"}}
    tree = device_scenario({"selectors": [selector]}, one={"attributes": {"model": {"string": "a"}}})
    assert suggested_for(tree)["deviceSelector"]["steps"][0]["facts"]["selector"] == selector["cel"]["expression"]
    drop = "drop the selector device.attributes['gpu.example.com'].model == 'b' from request r of claim mine"
    assert suggested_for(tree)["deviceSelector"]["text"] == f'{drop} (gpu.example.com/model is "a")'
    tainted = device_scenario({}, one={"taints": [{"key": "broken", "effect": "NoSchedule"}]})
    found = suggested_for(tainted)["deviceToleration"]
    assert found["text"] == "tolerate the taint broken:NoSchedule of devices in request r of claim mine"


def test_a_constraint_between_devices_could_go() -> None:
    tree = device_scenario(
        {"count": 2}, one={"attributes": {"bus": {"int": 1}}}, two={"attributes": {"bus": {"int": 2}}}
    )
    devices = tree["objects"]["resourceclaims"][0]["spec"]["devices"]
    devices["constraints"] = [{"requests": ["r"], "matchAttribute": "gpu.example.com/bus"}]
    assert "drop the constraint on gpu.example.com/bus" in suggested_for(tree)["deviceConstraint"]["text"]


def test_a_constraint_on_an_attribute_that_no_device_has_could_be_on_the_one_that_is_meant() -> None:
    attributes: Tree = {"attributes": {"bus": {"int": 1}}}
    tree = device_scenario({"count": 2}, one=attributes, two=attributes)
    devices = tree["objects"]["resourceclaims"][0]["spec"]["devices"]
    devices["constraints"] = [{"requests": ["r"], "matchAttribute": "example.com/bus"}]
    assert suggested_for(tree)["deviceConstraint"]["text"] == (
        "let the constraint of claim mine be on gpu.example.com/bus instead of example.com/bus"
    )


def test_devices_that_others_hold_could_be_given_back() -> None:
    found = suggested_for(device_scenario({}, held=1, one={}))["releaseDevices"]
    assert found["text"] == (
        "delete claim default/theirs, which holds gpu.example.com/a/one, and delete default/other, which uses it "
        "(priority 0; no controller recreates it)"
    )
    assert found["command"] == ("kubectl delete pod -n default other && kubectl delete resourceclaim -n default theirs")


def test_a_claim_that_was_made_for_a_pod_is_given_back_with_the_pod_alone() -> None:
    tree = device_scenario({}, held=1, one={})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "other", "uid": "uid-other", "controller": True}
    tree["objects"]["resourceclaims"][1]["metadata"]["ownerReferences"] = [owner]
    found = suggested_for(tree)["releaseDevices"]
    assert found["command"] == "kubectl delete pod -n default other"
    assert found["text"] == (
        "delete default/other, with which claim default/theirs goes, which holds gpu.example.com/a/one "
        "(priority 0; no controller recreates it)"
    )


OF_MODEL_A: Tree = {"attributes": {"model": {"string": "a"}}}
MODEL = 'device.attributes["gpu.example.com"].model'


def selecting(expression: str, *, one: Tree, two: Tree) -> Tree:
    return device_scenario({"selectors": [{"cel": {"expression": expression}}]}, one=one, two=two)


def numbered(exactly: Tree, count: int) -> Tree:
    """So many devices that are alike."""
    tree = device_scenario(exactly)
    tree["objects"]["resourceslices"][0]["spec"]["devices"] = [{"name": f"d{number}"} for number in range(count)]
    return tree


@pytest.mark.parametrize(
    ("expression", "fixed"),
    [
        pytest.param(f'{MODEL}l == "a"', f'{MODEL} == "a"', id="a name that nearly is one"),
        pytest.param(f'{MODEL.replace("gpu.", "")} == "a"', f'{MODEL} == "a"', id="the wrong domain"),
    ],
)
def test_a_selector_that_fails_could_be_written_as_it_is_meant(expression: str, fixed: str) -> None:
    found = suggested_for(selecting(expression, one=OF_MODEL_A, two=OF_MODEL_A))["deviceSelector"]
    assert found["text"] == f"write the selector {fixed} instead of {expression} in request r of claim mine"
    assert found["changes"][0]["patch"][0]["value"] == fixed


WITH_ALL: Tree = {
    "attributes": {
        "model": {"string": "hollow-80"},
        "index": {"int": 0},
        "mig": {"bool": True},
        "driverVersion": {"version": "1.2.0"},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}
AT = 'device.attributes["gpu.example.com"]'
MEMORY = 'device.capacity["gpu.example.com"].memory'


@pytest.mark.parametrize(
    ("expression", "fixed", "why"),
    [
        (f'{AT}.model == "hollow80"', f'{AT}.model == "hollow-80"', 'no device has "hollow80"'),
        (f'{AT}.model == "HOLLOW-80"', f'{AT}.model == "hollow-80"', 'no device has "HOLLOW-80"'),
        (f'"hollow80" == {AT}.model', f'{AT}.model == "hollow-80"', 'no device has "hollow80"'),
        (f'{AT}.model in ["a100", "hollow80"]', f'{AT}.model in ["a100", "hollow-80"]', 'no device has "hollow80"'),
        (f'{AT}.index == "0"', f"{AT}.index == 0", 'gpu.example.com/index is an integer, and "0" a string'),
        (f"{AT}.mig == 'true'", f"{AT}.mig == true", "gpu.example.com/mig is a boolean, and 'true' a string"),
        (
            f'{AT}.driverVersion == "1.2.0"',
            f'{AT}.driverVersion == semver("1.2.0")',
            'gpu.example.com/driverVersion is a version, and "1.2.0" a string',
        ),
        (
            f'{AT}.driverVersion >= semver("1.0.0")',
            f'{AT}.driverVersion.compareTo(semver("1.0.0")) >= 0',
            "gpu.example.com/driverVersion is a version, which compareTo compares",
        ),
        (
            f'{MEMORY} >= quantity("40Gi")',
            f'{MEMORY}.compareTo(quantity("40Gi")) >= 0',
            "gpu.example.com/memory is a quantity, which compareTo compares",
        ),
        (
            f'"40Gi" <= {MEMORY}',
            f'{MEMORY}.compareTo(quantity("40Gi")) >= 0',
            "gpu.example.com/memory is a quantity, which compareTo compares",
        ),
    ],
)
def test_a_value_of_a_selector_could_be_written_as_devices_have_it(expression: str, fixed: str, why: str) -> None:
    found = suggested_for(selecting(expression, one=WITH_ALL, two=WITH_ALL))
    suggestion = found["deviceSelector"]
    assert suggestion["steps"][0]["facts"]["to"] == fixed
    assert suggestion["text"] == f"write the selector {fixed} instead of {expression} in request r of claim mine: {why}"


def test_two_wrong_values_of_a_selector_are_corrected_together() -> None:
    expression = f'{AT}.model == "hollow80" && {MEMORY} >= quantity("40Gi")'
    found = suggested_for(selecting(expression, one=WITH_ALL, two=WITH_ALL))["deviceSelector"]
    assert found["steps"][0]["facts"]["to"] == (
        f'{AT}.model == "hollow-80" && {MEMORY}.compareTo(quantity("40Gi")) >= 0'
    )


def test_a_selector_that_fails_for_some_devices_could_ask_first() -> None:
    found = suggested_for(selecting(f'{MODEL} == "a"', one={}, two=OF_MODEL_A))["deviceSelector"]
    assert found["steps"][0]["facts"]["to"] == f'has({MODEL}) && ({MODEL} == "a")'


@pytest.mark.parametrize("queried", [33, 40, 20])
def test_of_more_devices_than_a_claim_may_have_the_largest_number_that_fits_is_suggested(queried: int) -> None:
    assert suggested_for(numbered({"count": queried}, 3))["deviceCount"]["steps"][0]["facts"]["to"] == 3


def test_a_rule_of_taints_could_be_deleted() -> None:
    tree = device_scenario({}, one={})
    rules = [
        {"metadata": {"name": name}, "spec": {"deviceSelector": {"driver": driver}, "taint": taint}}
        for name, driver, taint in (
            ("a-other", "fpga.example.com", {"key": "cold", "effect": "NoSchedule"}),
            ("hot", "gpu.example.com", {"key": "hot", "value": "yes", "effect": "NoSchedule"}),
        )
    ]
    tree["objects"]["devicetaintrules"] = rules
    tree["gates"] = {"DRADeviceTaintRules": True}
    found = suggested_for(tree)
    assert (
        found["deviceTaintRule"]["text"] == "delete DeviceTaintRule hot, which taints devices with hot=yes:NoSchedule"
    )
    assert found["deviceTaintRule"]["command"] == "kubectl delete devicetaintrule hot"
    assert found["deviceToleration"]["nodes"] == 1


def test_for_a_pool_that_is_being_updated_the_pod_should_wait() -> None:
    tree = device_scenario({}, one={})
    tree["objects"]["resourceslices"][0]["spec"]["pool"]["resourceSliceCount"] = 2
    tree["objects"]["resourceslices"][1]["spec"]["devices"] = [{"name": "fpga"}]
    first, *others = suggestions_for(tree) or [{}]
    assert first["text"] == (
        "wait until pool a of driver gpu.example.com is complete: its driver is updating it, "
        "1 of 2 slices of generation 1 is there"
    )
    assert (first["kind"], first["nodes"], first["command"], first["changes"]) == ("poolUpdate", 1, "", ())
    assert [each["kind"] for each in others][-1] == "deviceClass"


@pytest.mark.parametrize(("free", "kept"), [(5, 5), (1, 1)])
def test_of_an_extended_resource_that_is_devices_the_largest_amount_that_fits_is_suggested(
    free: int, kept: int
) -> None:
    tree = numbered({}, free)
    tree["objects"]["deviceclasses"][0]["spec"]["extendedResourceName"] = "example.com/gpu"
    tree["pod"] = pod_tree()
    tree["pod"]["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "9"
    tree["gates"] = {"DRAExtendedResource": True}
    found = suggested_for(tree)["request"]
    assert found["text"] == f"request {kept} of example.com/gpu instead of 9"


def test_a_claim_of_a_template_is_changed_in_the_template() -> None:
    tree = template_scenario()
    found = suggested_for(tree)["deviceCount"]
    assert found["text"] == (
        "ask for 1 device instead of 2 in request r of claim template some, "
        "and recreate the pod: it has claim mine from the old version of the template"
    )
    changed, made_again = found["command"].split(" && ")
    assert changed.startswith("kubectl get resourceclaimtemplate some -n default")
    assert "/spec/spec/devices/requests/0/exactly/count" in changed
    assert made_again == "kubectl get pod web -n default -o yaml | kubectl replace --force -f -"
    assert found["commandNote"] == (
        "the command deletes pod web and resourceclaimtemplate some and creates them again: they cannot be changed in "
        "place; claim mine, made from the old template, goes with pod web"
    )


def template_scenario(owner: Tree | None = None, **spec: Any) -> Tree:
    """A pod with a claim for two devices that was made from a template; there is one device."""
    tree = device_scenario({"count": 2}, one={})
    of_pod = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-web", "controller": True}
    tree["objects"]["resourceclaims"][0]["metadata"]["ownerReferences"] = [of_pod]
    tree["pod"]["spec"] |= {"resourceClaims": [{"name": "c", "resourceClaimTemplateName": "some"}], **spec}
    tree["pod"]["status"] = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "mine"}]}
    if owner is not None:
        tree["pod"]["metadata"]["ownerReferences"] = [owner]
    return tree


def queried_again(tree: Tree, tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int) -> Tree:
    """The answer about the same objects with the template, which asks for so many devices by now."""
    kinds = {
        "nodes": ("v1", "Node"),
        "resourceclaims": ("resource.k8s.io/v1", "ResourceClaim"),
        "resourceslices": ("resource.k8s.io/v1", "ResourceSlice"),
        "deviceclasses": ("resource.k8s.io/v1", "DeviceClass"),
    }
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    template = {"metadata": {"name": "some", "namespace": "default", "uid": "some"}, "spec": {"spec": spec}}
    items = [
        {"apiVersion": "v1", "kind": "Pod", **tree["pod"]},
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", **template},
    ]
    for plural, (version, kind) in kinds.items():
        items += [{"apiVersion": version, "kind": kind, **each} for each in tree["objects"][plural]]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert main(["explain", "--from", str(dump), "-o", "json", "--scheduler-name", "default-scheduler"]) == 0
    output = capsys.readouterr()
    assert "skipped" not in output.err
    explanation: Tree = json.loads(output.out)
    return explanation


def test_queried_again_after_the_template_alone_was_changed_the_answer_is_to_make_the_pod_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = template_scenario()
    before = queried_again(tree, tmp_path, capsys, 2)["suggestions"]
    assert before[0]["text"].startswith("ask for 1 device instead of 2 in request r of claim template some, and")
    first, *others = queried_again(tree, tmp_path, capsys, 1)["suggestions"]
    assert (first["kind"], first["nodes"]) == ("newClaim", 1)
    assert first["text"] == "recreate the pod: it has claim mine from before the template was changed"
    assert first["command"] == "kubectl get pod web -n default -o yaml | kubectl replace --force -f -"
    assert feasible(applied(tree, first)) == 1
    assert "deviceCount" not in [each["kind"] for each in others]
    still_too_many = queried_again(tree, tmp_path, capsys, 3)["suggestions"]
    assert still_too_many[0]["kind"] == "deviceCount"


@pytest.mark.parametrize("kind", ["ReplicaSet", "Job", "RayCluster"])
def test_a_controller_makes_a_pod_again_that_goes_with_its_claim(kind: str) -> None:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": "1", "controller": True}
    found = suggested_for(template_scenario(owner))["deviceCount"]
    assert found["command"].endswith(" | kubectl replace --force -f - && kubectl delete pod web -n default")
    assert found["commandNote"].endswith(f"goes with pod web, which {kind.lower()}/web makes again")


def test_a_pod_that_is_made_again_for_another_change_is_made_again_once_and_after_the_template() -> None:
    tree = template_scenario(nodeSelector={"disk": "ssd"})
    steps = suggested_for(tree)["nodeSelector+deviceCount"]["command"].split(" && ")
    assert [step.split()[2] for step in steps] == ["resourceclaimtemplate", "pod"]
    assert "/spec/nodeSelector" in steps[1]
    tree["pod"]["spec"] |= {"nodeSelector": {}}
    tree["objects"]["nodes"][0]["spec"]["taints"] = [{"key": "team", "value": "ml", "effect": "NoSchedule"}]
    steps = suggested_for(tree)["toleration+deviceCount"]["command"].split(" && ")
    assert [step.split()[1:3] for step in steps] == [["get", "resourceclaimtemplate"], ["get", "pod"]]


# --- namespaces, groups -----------------------------------------------------------------------------------------------


def namespace_tree(name: str, **labels: str) -> Tree:
    return {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}}


def test_a_namespace_could_be_taken_in_by_a_selector_or_left_out() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": "a"}},
    }
    other = pod_tree("db", nodeName="a")
    other["metadata"] |= {"namespace": "shop", "labels": {"app": "db"}}
    tree = scenario(
        pod_tree(affinity={"podAffinity": {REQUIRED: [term]}}),
        nodes=[labelled("a", {})],
        pods=[other],
        namespaces=[namespace_tree("default"), namespace_tree("shop")],
    )
    found = suggested_for(tree)["namespaceLabel"]
    assert found["text"] == "label namespace shop: team=a"
    assert found["command"] == "kubectl label namespace shop --overwrite team=a"
    tree["pod"]["spec"]["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
    tree["objects"]["namespaces"][1] = namespace_tree("shop", team="a")
    assert suggested_for(tree)["namespaceLabel"]["command"] == "kubectl label namespace shop --overwrite team-"


def test_the_own_namespace_could_be_left_out_by_other_pods() -> None:
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchExpressions": [{"key": "quiet", "operator": "DoesNotExist"}]},
    }
    other = pod_tree("alone", nodeName="a", affinity={"podAntiAffinity": {REQUIRED: [term]}})
    other["metadata"]["namespace"] = "shop"
    tree = scenario(
        pod_tree(),
        nodes=[labelled("a", {})],
        pods=[other],
        namespaces=[namespace_tree("default"), namespace_tree("shop")],
    )
    assert suggested_for(tree)["namespaceLabel"]["command"] == "kubectl label namespace default --overwrite quiet="


def test_the_rest_of_a_gang_could_be_created_or_done_without() -> None:
    pod = pod_tree(schedulingGroup={"podGroupName": "gang"})
    member = pod_tree("other", schedulingGroup={"podGroupName": "gang"})
    group = {
        "metadata": {"name": "gang", "namespace": "default", "uid": "gang"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
    gates = {"GenericWorkload": True}
    tree = scenario(pod, nodes=[node_tree("a")], pods=[member], podgroups=[group], gates=gates)
    found = suggested_for(tree)
    assert found["groupMinCount"]["text"] == "let pod group default/gang need 1 member instead of 3"
    assert found["groupMinCount"]["command"].startswith(
        "kubectl patch podgroups.scheduling.k8s.io gang -n default --type=json"
    )
    assert found["groupMembers"]["text"].startswith("create 2 more members of pod group default/gang")


# --- nodes, gates, pods -----------------------------------------------------------------------------------------------


def test_a_node_could_get_the_labels_that_the_profile_requires() -> None:
    expression = {"key": "pool", "operator": "In", "values": ["batch"]}
    added = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    args = {"kind": "NodeAffinityArgs", "addedAffinity": added}
    tree = scenario(pod_tree(nodeSelector={"disk": "ssd"}), nodes=[labelled("a", {"disk": "ssd"})])
    tree["config"] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [{"name": "NodeAffinity", "args": args}]}],
    }
    assert suggested_for(tree)["nodeLabel"]["command"] == "kubectl label node a --overwrite pool=batch"


def test_one_node_may_need_two_changes() -> None:
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    pod = pod_tree(nodeSelector={"disk": "ssd"})
    found = suggested_for(scenario(pod, nodes=[labelled("a", {}, taints=[taint]), node_tree("b", cpu="100m")]))
    assert found["taint+nodeLabel"]["command"] == (
        "kubectl taint node a team=ml:NoSchedule- && kubectl label node a --overwrite disk=ssd"
    )
    assert "toleration+nodeSelector" in found


def test_a_key_with_several_taints_is_tolerated_as_a_whole() -> None:
    taints = [{"key": "gpu", "value": "x", "effect": effect} for effect in ("NoSchedule", "NoExecute")]
    found = suggested_for(scenario(pod_tree(), nodes=[node_tree("a", taints=taints)]))
    assert found["toleration"]["text"] == "tolerate all taints with the key gpu"


def test_a_requirement_could_accept_one_value_more() -> None:
    expression = {"key": "disk", "operator": "In", "values": ["ssd"]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    tree = scenario(pod_tree(affinity=affinity), nodes=[labelled("a", {"disk": "hdd"})])
    texts = [each["text"] for each in suggestions_for(tree) or () if each["kind"] == "nodeAffinity"]
    assert texts == [
        "relax disk In (ssd) of the required node affinity so that it accepts hdd, too",
        "drop the required node affinity",
    ]


@pytest.mark.parametrize(
    ("queried", "there", "meant"),
    [
        pytest.param("disktype=sdd", "disktype=ssd", ["disktype=ssd"], id="a near value"),
        pytest.param("disk-type=ssd", "disktype=ssd", ["disktype=ssd"], id="a near key"),
        pytest.param("disktype=ssd", "example.com/disktype=ssd", ["example.com/disktype=ssd"], id="a key with prefix"),
        pytest.param("disktype=tape", "disktype=ssd", [], id="nothing near"),
        pytest.param("disk-type=ssd", "disktype=hdd", [], id="a near key with another value"),
        pytest.param("disktype=sdd", "disktype=ssd full=sdd", ["disktype=ssd"], id="another label has the value"),
        pytest.param("kubernetes.io/hostname=node-2", "x=y", [], id="the name of a node"),
    ],
)
def test_a_label_that_no_node_has_could_be_written_as_one_has_it(queried: str, there: str, meant: list[str]) -> None:
    key, _, value = queried.partition("=")
    node = labelled("node-1", dict(each.split("=") for each in there.split()))
    tree = scenario(pod_tree(nodeSelector={key: value}), nodes=[node])
    suggested_for(tree)  # each holds
    found = [each for each in suggestions_for(tree) or () if each["kind"] == "nodeSelector"]
    written = [f"write {each} instead of {queried} in the nodeSelector: no node has {queried}" for each in meant]
    assert [each["text"] for each in found] == [*written, f"drop {queried} from the nodeSelector"]


def test_a_label_that_some_node_has_is_no_mistake() -> None:
    nodes = [labelled("a", {"disk": "ssd"}), labelled("b", {"disk": "sdd"}, cpu="1")]
    found = suggestions_for(scenario(pod_tree(cpu="3", nodeSelector={"disk": "sdd"}), nodes=nodes))
    assert not any(each["text"].startswith("write") for each in found or ())


def test_where_there_are_very_many_pods_their_labels_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kscheduler.explain.suggestions.kinds.label_changes._MAX_PODS", 1)
    databases = [pod_tree(name, nodeName="a") for name in ("one", "two")]
    for each in databases:
        each["metadata"]["labels"] = {"app": "database"}
    term: Tree = {"labelSelector": {"matchLabels": {"app": "databse"}}, "topologyKey": "kubernetes.io/hostname"}
    tree = scenario(pod_tree(affinity={"podAffinity": {REQUIRED: [term]}}), nodes=[labelled("a", {})], pods=databases)
    texts = [each["text"] for each in suggestions_for(tree) or () if each["kind"] == "podAffinity"]
    assert [text.partition(" ")[0] for text in texts] == ["drop"]


def test_a_value_that_no_pod_has_could_be_written_as_one_has_it() -> None:
    database = pod_tree("db", nodeName="a")
    database["metadata"]["labels"] = {"app": "database"}
    term: Tree = {"labelSelector": {"matchLabels": {"app": "databse"}}, "topologyKey": "kubernetes.io/hostname"}
    tree = scenario(pod_tree(affinity={"podAffinity": {REQUIRED: [term]}}), nodes=[labelled("a", {})], pods=[database])
    suggested_for(tree)  # each holds
    texts = [each["text"] for each in suggestions_for(tree) or () if each["kind"] == "podAffinity"]
    written = "write app=database instead of app=databse in the required affinity to pods"
    assert texts[0] == f"{written}: no pod of the namespace has app=databse"
    assert texts[1].startswith("drop the required affinity to pods")
    database["metadata"]["namespace"] = "other"
    texts = [each["text"] for each in suggestions_for(tree) or () if each["kind"] == "podAffinity"]
    assert [text.partition(" ")[0] for text in texts] == ["drop"]


def test_who_has_set_the_gates_is_said() -> None:
    fields: Tree = {"f:spec": {"f:schedulingGates": {".": {}, 'k:{"name":"quota"}': {}}}}
    tree = scenario(pod_tree(schedulingGates=[{"name": "quota"}]), nodes=[node_tree("a")])
    tree["pod"]["metadata"]["managedFields"] = [
        {"manager": "kueue", "operation": "Update", "fieldsV1": fields},
        {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
    ]
    found = suggested_for(tree)["schedulingGate"]
    assert found["text"] == "remove the scheduling gates quota, or let kueue, which has set it, do it"
    assert found["steps"][0]["facts"]["owners"] == ["kueue"]


def test_gates_of_a_template_come_again_with_the_next_pod() -> None:
    tree = scenario(pod_tree(schedulingGates=[{"name": "quota"}]), nodes=[node_tree("a")])
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "1", "controller": True}
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "2", "controller": True}
    tree["objects"]["replicasets"] = [
        {"metadata": {"name": "web-5d", "namespace": "default", "ownerReferences": [above]}}
    ]
    fields: Tree = {"f:spec": {"f:schedulingGates": {".": {}, 'k:{"name":"quota"}': {}}}}
    manager = {"manager": "kube-controller-manager", "operation": "Update", "fieldsV1": fields}
    tree["pod"]["metadata"] |= {"ownerReferences": [owner], "managedFields": [manager]}
    found = suggested_for(tree)["schedulingGate"]
    assert found["text"] == "remove the scheduling gates quota, which the template of the pod has"
    assert found["command"].startswith("kubectl patch pod web ")
    assert found["commandNote"] == (
        "the template of deployment/web has the gates: the pods that it makes from now on have them again"
    )
    del tree["pod"]["metadata"]["managedFields"]  # nobody says where they come from
    assert suggested_for(tree)["schedulingGate"]["commandNote"] == ""


def test_budgets_of_pods_that_would_go_are_named() -> None:
    budget = {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 2},
    }
    other = pod_tree("other", cpu="3", nodeName="a")
    other["metadata"]["labels"] = {"app": "db"}
    tree = scenario(pod_tree(cpu="3"), nodes=[node_tree("a")], pods=[other], poddisruptionbudgets=[budget])
    found = suggested_for(tree)["deletePods"]
    assert (
        found["text"]
        == "delete default/other on a (priority 0; budget default/db allows 2; no controller recreates it)"
    )
    assert found["steps"][0]["facts"]["budgets"] == [{"namespace": "default", "name": "db", "allowed": 2, "pods": 1}]


def test_of_many_pods_that_would_go_the_text_has_the_number_and_the_command_the_names() -> None:
    pods = [pod_tree(f"p-{number}", cpu="500m", nodeName="a") for number in range(7)]
    found = suggested_for(scenario(pod_tree(cpu="4"), nodes=[node_tree("a")], pods=pods))["deletePods"]
    assert found["text"] == "delete 7 pods on a (priority 0; no controller recreates them)"
    assert found["command"] == "kubectl delete pod -n default p-0 p-1 p-2 p-3 p-4 p-5 p-6"


def test_half_a_pair_is_no_command() -> None:
    """Where kubectl can make only one of two changes, none is printed."""
    pod = pod_tree(cpu="3", nodeSelector={"disk": "ssd"})
    for each in suggestions_for(scenario(pod, nodes=[node_tree("a", cpu="2")])) or ():
        assert ("addNode" in each["kind"]) <= (not each["command"])
        assert shlex.split(each["command"]) or each["kind"] == "addNode"


# --- recorded scenarios -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", sampled(FAMILIES, 6, "searches in twenty clusters, and tries what was found"))
def test_suggestions_for_recorded_scenarios_hold(family: str) -> None:
    """With a nomination of its own, the pod is afterwards tried on that node alone.

    Of the 60 scenarios of a family each third; all of them with KSCHEDULER_FUZZ=1 (`make fuzz`).
    """
    with gzip.open(VECTORS / f"{family}.jsonl.gz") as lines:
        for line in itertools.islice(lines, 0, None, 1 if IS_LONG else 3):
            tree = {key: value for key, value in json.loads(line).items() if key != "expect"}
            decision = decide(parse_scenario(json.dumps(tree).encode(), "recorded:1"))
            found = suggested(decision)
            trees = suggestion_trees(found or (), decision.scenario, NO_SITUATION)
            best = {suggestion["kind"]: suggestion for suggestion in reversed(trees)}
            for suggestion in best.values():
                record = decided(applied(tree, suggestion)).record
                assert record is not None, (tree["id"], suggestion["text"])
                assert record.node_name, (tree["id"], suggestion["text"])
                if not record.only_nominated:
                    assert len(record.feasible) == suggestion["nodes"], (tree["id"], suggestion["text"])
