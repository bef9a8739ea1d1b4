"""Columns of further kinds: access, settings, network, storage drivers, devices."""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType

from kscheduler.api.machinery.api_errors import Object
from kscheduler.api.machinery.durations import age
from kscheduler.embedded.apiserver.tables.columns import AGE, NAME, Column, at, plain
from kscheduler.embedded.table_cells import NONE, field, selector_text

_CREATED_AT = at("Created At", "metadata.creationTimestamp")


def _count(name: str, *paths: str) -> Column:
    return Column(name, plain(lambda value: sum(len(field(value, path, ())) for path in paths)), type="integer")


def _text(name: str, cell: Callable[[Object], object], *, wide: bool = False) -> Column:
    return Column(name, plain(cell), wide)


def _role(binding: Object) -> str:
    return f"{field(binding, 'roleRef.kind')}/{field(binding, 'roleRef.name')}"


def _subjects(kind: str) -> Callable[[Object], str]:
    def cell(binding: Object) -> str:
        found = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind]
        return ", ".join("/".join(filter(None, (subject.get("namespace"), subject.get("name")))) for subject in found)

    return cell


_BINDINGS = (
    NAME,
    _text("Role", _role),
    AGE,
    _text("Users", _subjects("User"), wide=True),
    _text("Groups", _subjects("Group"), wide=True),
    _text("ServiceAccounts", _subjects("ServiceAccount"), wide=True),
)


def _used(limits: bool) -> Callable[[Object], str]:
    """`cpu: 1/4, pods: 2/10` of a quota, of its limits or of everything else."""

    def cell(quota: Object) -> str:
        hard, used = field(quota, "status.hard", {}), field(quota, "status.used", {})
        names = sorted(name for name in hard if name.startswith("limits") is limits)
        return ", ".join(f"{name}: {used.get(name, 0)}/{hard[name]}" for name in names)

    return cell


def _hosts(ingress: Object) -> str:
    hosts = [rule["host"] for rule in field(ingress, "spec.rules", ()) if rule.get("host")]
    return ",".join(hosts) or "*"


def _ingress_ports(ingress: Object) -> str:
    return "80, 443" if field(ingress, "spec.tls", ()) else "80"


def _pod_selector(policy: Object) -> str:
    return selector_text(field(policy, "spec.podSelector.matchLabels", {}))


def _dangling(schema: Object) -> str:
    """Whether a controller has said that the priority level is missing; none says so here."""
    found = [condition for condition in field(schema, "status.conditions", ()) if condition.get("type") == "Dangling"]
    return str(found[0].get("status")) if found else "?"


def _endpoints(value: Object) -> str:
    found = [
        f"{address.get('ip')}:{port.get('port')}"
        for subset in value.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    return ",".join(found) or NONE


def _slice_ports(value: Object) -> str:
    return ",".join(str(port.get("port")) for port in value.get("ports") or ()) or "<unset>"


def _slice_addresses(value: Object) -> str:
    return ",".join(
        address for endpoint in value.get("endpoints") or () for address in endpoint.get("addresses") or ()
    ) or ("<unset>")


def _claim_state(claim: Object) -> str:
    status = claim.get("status") or {}
    states = ["deleted"] if "deletionTimestamp" in claim["metadata"] else []
    if status.get("allocation") is None:
        return ",".join(states) or "pending"
    states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return ",".join(states)


def _group_policy(group: Object) -> str:
    return "Basic" if field(group, "spec.schedulingPolicy.gang", None) is None else "Gang"


def _group_status(group: Object) -> str:
    found = {one.get("type"): one for one in field(group, "status.conditions", ())}
    if "DisruptionTarget" in found:
        return str(found["DisruptionTarget"].get("reason"))
    if "PodGroupInitiallyScheduled" not in found:
        return "Pending"
    return "Scheduled" if found["PodGroupInitiallyScheduled"].get("status") == "True" else "Unschedulable"


def _tainted_since(rule: Object, now: datetime) -> str:
    added = field(rule, "spec.taint.timeAdded", None)
    return age(added, now) if added else ""


def _parameters(ingress_class: Object) -> str:
    parameters = field(ingress_class, "spec.parameters", {})
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters['kind']}{group}/{parameters['name']}" if parameters else NONE


_WEBHOOKS = (NAME, _count("Webhooks", "webhooks"), AGE)

# Columns by resource.
MORE_COLUMNS: Mapping[str, tuple[Column, ...]] = MappingProxyType(
    {
        "configmaps": (NAME, _count("Data", "data", "binaryData"), AGE),
        "secrets": (NAME, at("Type", "type", "Opaque"), _count("Data", "data"), AGE),
        "endpoints": (NAME, _text("Endpoints", _endpoints), AGE),
        "limitranges": (NAME, _CREATED_AT),
        "resourcequotas": (NAME, _text("Request", _used(limits=False)), _text("Limit", _used(limits=True)), AGE),
        "roles.rbac.authorization.k8s.io": (NAME, _CREATED_AT),
        "clusterroles.rbac.authorization.k8s.io": (NAME, _CREATED_AT),
        "rolebindings.rbac.authorization.k8s.io": _BINDINGS,
        "clusterrolebindings.rbac.authorization.k8s.io": _BINDINGS,
        "csidrivers.storage.k8s.io": (
            NAME,
            at("AttachRequired", "spec.attachRequired", default=True),
            at("PodInfoOnMount", "spec.podInfoOnMount", default=False),
            at("StorageCapacity", "spec.storageCapacity", default=False),
            _text(
                "TokenRequests",
                lambda value: (
                    ",".join(request.get("audience", "") for request in field(value, "spec.tokenRequests", ()))
                    or "<unset>"
                ),
            ),
            at("RequiresRepublish", "spec.requiresRepublish", default=False),
            _text("Modes", lambda value: ",".join(field(value, "spec.volumeLifecycleModes", ("Persistent",)))),
            AGE,
        ),
        "devicetaintrules.resource.k8s.io": (
            NAME,
            at("Key", "spec.taint.key"),
            at("Value", "spec.taint.value"),
            at("Effect", "spec.taint.effect"),
            Column("TimeAdded", _tainted_since),
            AGE,
        ),
        "podgroups.scheduling.k8s.io": (
            NAME,
            _text("Policy", _group_policy),
            at("Workload", "spec.workloadRef.workloadName", NONE),
            _text("Status", _group_status),
            AGE,
        ),
        "compositepodgroups.scheduling.k8s.io": (
            NAME,
            _text("Policy", _group_policy),
            at("Workload", "spec.workloadRef.workloadName", NONE),
            AGE,
        ),
        "csinodes.storage.k8s.io": (NAME, _count("Drivers", "spec.drivers"), AGE),
        "csistoragecapacities.storage.k8s.io": (NAME, _CREATED_AT),
        "volumeattachments.storage.k8s.io": (
            NAME,
            at("Attacher", "spec.attacher"),
            at("PV", "spec.source.persistentVolumeName"),
            at("Node", "spec.nodeName"),
            at("Attached", "status.attached", default=False),
            AGE,
        ),
        "resourceclaims.resource.k8s.io": (NAME, _text("State", _claim_state), AGE),
        "resourceslices.resource.k8s.io": (
            NAME,
            at("Node", "spec.nodeName"),
            at("Driver", "spec.driver"),
            at("Pool", "spec.pool.name"),
            AGE,
        ),
        "ingressclasses.networking.k8s.io": (
            NAME,
            at("Controller", "spec.controller"),
            _text("Parameters", _parameters),
            AGE,
        ),
        "ingresses.networking.k8s.io": (
            NAME,
            at("Class", "spec.ingressClassName", NONE),
            _text("Hosts", _hosts),
            at("Address", "status.loadBalancer.address"),
            _text("Ports", _ingress_ports),
            AGE,
        ),
        "networkpolicies.networking.k8s.io": (NAME, _text("Pod-Selector", _pod_selector), AGE),
        "endpointslices.discovery.k8s.io": (
            NAME,
            at("AddressType", "addressType"),
            _text("Ports", _slice_ports),
            _text("Endpoints", _slice_addresses),
            AGE,
        ),
        "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
        "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
        "flowschemas.flowcontrol.apiserver.k8s.io": (
            NAME,
            at("PriorityLevel", "spec.priorityLevelConfiguration.name"),
            at("MatchingPrecedence", "spec.matchingPrecedence"),
            at("DistinguisherMethod", "spec.distinguisherMethod.type", NONE),
            AGE,
            _text("MissingPL", _dangling),
        ),
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": (
            NAME,
            at("Type", "spec.type"),
            at("NominalConcurrencyShares", "spec.limited.nominalConcurrencyShares", NONE),
            at("Queues", "spec.limited.limitResponse.queuing.queues", NONE),
            at("HandSize", "spec.limited.limitResponse.queuing.handSize", NONE),
            at("QueueLengthLimit", "spec.limited.limitResponse.queuing.queueLengthLimit", NONE),
            AGE,
        ),
        "runtimeclasses.node.k8s.io": (NAME, at("Handler", "handler"), AGE),
    }
)
