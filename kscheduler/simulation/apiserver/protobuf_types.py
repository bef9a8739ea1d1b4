"""Field numbers of the messages that `protobuf` reads: the public wire format of the Kubernetes API.

A number is for ever: the API never gives one a new meaning. Status messages are passed over, as a create ignores them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Shape(Enum):
    """How a field's value is written."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    MESSAGE = "message"
    MAP = "map"
    """String keys; values are strings, or quantities when `message` is given."""
    QUANTITY = "quantity"
    INT_OR_STRING = "int or string"
    IGNORED = "ignored"


Message = Mapping[int, "Field"]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message."""

    name: str
    shape: Shape = Shape.TEXT
    message: Message | None = None
    is_list: bool = False
    is_pointer: bool = False
    """Kept even when it is zero or empty, because being there means something."""


def _text(name: str) -> Field:
    return Field(name)


def _texts(name: str) -> Field:
    return Field(name, is_list=True)


def _integer(name: str) -> Field:
    return Field(name, Shape.INTEGER)


def _optional_integer(name: str) -> Field:
    return Field(name, Shape.INTEGER, is_pointer=True)


def _flag(name: str) -> Field:
    return Field(name, Shape.BOOLEAN)


def _optional_flag(name: str) -> Field:
    return Field(name, Shape.BOOLEAN, is_pointer=True)


def _part(name: str, message: Message) -> Field:
    return Field(name, Shape.MESSAGE, message)


def _parts(name: str, message: Message) -> Field:
    return Field(name, Shape.MESSAGE, message, is_list=True)


def _labels(name: str) -> Field:
    return Field(name, Shape.MAP)


def _either(name: str) -> Field:
    return Field(name, Shape.INT_OR_STRING, is_pointer=True)


_QUANTITY: Message = {1: _text("string")}
_STATUS = Field("status", Shape.IGNORED)


def _quantities(name: str) -> Field:
    return Field(name, Shape.MAP, _QUANTITY)


_OWNER: Message = {
    1: _text("kind"),
    3: _text("name"),
    4: _text("uid"),
    5: _text("apiVersion"),
    6: _optional_flag("controller"),
    7: _optional_flag("blockOwnerDeletion"),
}
_METADATA: Message = {
    1: _text("name"),
    2: _text("generateName"),
    3: _text("namespace"),
    4: Field("selfLink", Shape.IGNORED),
    5: _text("uid"),
    6: _text("resourceVersion"),
    7: _integer("generation"),
    8: Field("creationTimestamp", Shape.IGNORED),
    9: Field("deletionTimestamp", Shape.IGNORED),
    10: Field("deletionGracePeriodSeconds", Shape.IGNORED),
    11: _labels("labels"),
    12: _labels("annotations"),
    13: _parts("ownerReferences", _OWNER),
    14: _texts("finalizers"),
    17: Field("managedFields", Shape.IGNORED),
}
_SELECTOR: Message = {
    1: _labels("matchLabels"),
    2: _parts("matchExpressions", {1: _text("key"), 2: _text("operator"), 3: _texts("values")}),
}
_PORT: Message = {
    1: _text("name"),
    2: _integer("hostPort"),
    3: _integer("containerPort"),
    4: _text("protocol"),
    5: _text("hostIP"),
}
_CONTAINER: Message = {
    1: _text("name"),
    2: _text("image"),
    3: _texts("command"),
    4: _texts("args"),
    5: _text("workingDir"),
    6: _parts("ports", _PORT),
    7: _parts("env", {1: _text("name"), 2: _text("value")}),
    8: _part("resources", {1: _quantities("limits"), 2: _quantities("requests")}),
    13: _text("terminationMessagePath"),
    14: _text("imagePullPolicy"),
    16: _flag("stdin"),
    17: _flag("stdinOnce"),
    18: _flag("tty"),
    20: _text("terminationMessagePolicy"),
}
_TOLERATION: Message = {
    1: _text("key"),
    2: _text("operator"),
    3: _text("value"),
    4: _text("effect"),
    5: _optional_integer("tolerationSeconds"),
}
_POD_SPEC: Message = {
    2: _parts("containers", _CONTAINER),
    3: _text("restartPolicy"),
    4: _optional_integer("terminationGracePeriodSeconds"),
    5: _optional_integer("activeDeadlineSeconds"),
    6: _text("dnsPolicy"),
    7: _labels("nodeSelector"),
    8: _text("serviceAccountName"),
    9: _text("serviceAccount"),
    10: _text("nodeName"),
    11: _flag("hostNetwork"),
    12: _flag("hostPID"),
    13: _flag("hostIPC"),
    14: Field("securityContext", Shape.IGNORED),
    16: _text("hostname"),
    17: _text("subdomain"),
    19: _text("schedulerName"),
    20: _parts("initContainers", _CONTAINER),
    21: _optional_flag("automountServiceAccountToken"),
    22: _parts("tolerations", _TOLERATION),
    24: _text("priorityClassName"),
    25: _optional_integer("priority"),
    30: _optional_flag("enableServiceLinks"),
    31: _text("preemptionPolicy"),
    32: _quantities("overhead"),
}
_TEMPLATE: Message = {1: _part("metadata", _METADATA), 2: _part("spec", _POD_SPEC)}


def _kind(spec: Message) -> Message:
    return MappingProxyType({1: _part("metadata", _METADATA), 2: _part("spec", spec), 3: _STATUS})


_DEPLOYMENT_SPEC: Message = {
    1: _optional_integer("replicas"),
    2: _part("selector", _SELECTOR),
    3: _part("template", _TEMPLATE),
    4: _part("strategy", {1: _text("type"), 2: Field("rollingUpdate", Shape.IGNORED)}),
    5: _integer("minReadySeconds"),
    6: _optional_integer("revisionHistoryLimit"),
    7: _flag("paused"),
    9: _optional_integer("progressDeadlineSeconds"),
}
_JOB_SPEC: Message = {
    1: _optional_integer("parallelism"),
    2: _optional_integer("completions"),
    3: _optional_integer("activeDeadlineSeconds"),
    4: _part("selector", _SELECTOR),
    5: _optional_flag("manualSelector"),
    6: _part("template", _TEMPLATE),
    7: _optional_integer("backoffLimit"),
    8: _optional_integer("ttlSecondsAfterFinished"),
    9: _text("completionMode"),
    10: _optional_flag("suspend"),
    14: _text("podReplacementPolicy"),
}
_CRON_JOB_SPEC: Message = {
    1: _text("schedule"),
    2: _optional_integer("startingDeadlineSeconds"),
    3: _text("concurrencyPolicy"),
    4: _optional_flag("suspend"),
    5: _part("jobTemplate", {1: _part("metadata", _METADATA), 2: _part("spec", _JOB_SPEC)}),
    6: _optional_integer("successfulJobsHistoryLimit"),
    7: _optional_integer("failedJobsHistoryLimit"),
    8: _text("timeZone"),
}
_METRIC_TARGET: Message = {
    1: _text("type"),
    2: Field("value", Shape.QUANTITY),
    3: Field("averageValue", Shape.QUANTITY),
    4: _optional_integer("averageUtilization"),
}
_AUTOSCALER_SPEC: Message = {
    1: _part("scaleTargetRef", {1: _text("kind"), 2: _text("name"), 3: _text("apiVersion")}),
    2: _optional_integer("minReplicas"),
    3: _integer("maxReplicas"),
    4: _parts(
        "metrics", {1: _text("type"), 4: _part("resource", {1: _text("name"), 2: _part("target", _METRIC_TARGET)})}
    ),
}
_SERVICE_PORT: Message = {
    1: _text("name"),
    2: _text("protocol"),
    3: _integer("port"),
    4: _either("targetPort"),
    5: _integer("nodePort"),
    6: _text("appProtocol"),
}
_SERVICE_SPEC: Message = {
    1: _parts("ports", _SERVICE_PORT),
    2: _labels("selector"),
    3: _text("clusterIP"),
    4: _text("type"),
    5: _texts("externalIPs"),
    7: _text("sessionAffinity"),
    8: _text("loadBalancerIP"),
    9: _texts("loadBalancerSourceRanges"),
    10: _text("externalName"),
    11: _text("externalTrafficPolicy"),
    12: _integer("healthCheckNodePort"),
    13: _flag("publishNotReadyAddresses"),
    17: _text("ipFamilyPolicy"),
    18: _texts("clusterIPs"),
    19: _texts("ipFamilies"),
}
_BUDGET_SPEC: Message = {
    1: _either("minAvailable"),
    2: _part("selector", _SELECTOR),
    3: _either("maxUnavailable"),
    4: _text("unhealthyPodEvictionPolicy"),
}
_PRIORITY_CLASS: Message = {
    1: _part("metadata", _METADATA),
    2: _optional_integer("value"),
    3: _flag("globalDefault"),
    4: _text("description"),
    5: _text("preemptionPolicy"),
}
_CONFIG_MAP: Message = {1: _part("metadata", _METADATA), 2: _labels("data"), 4: _optional_flag("immutable")}
_SERVICE_ACCOUNT: Message = {1: _part("metadata", _METADATA), 4: _optional_flag("automountServiceAccountToken")}
_DELETE_OPTIONS: Message = {
    1: _optional_integer("gracePeriodSeconds"),
    2: _part("preconditions", {1: _text("uid"), 2: _text("resourceVersion")}),
    3: _optional_flag("orphanDependents"),
    4: _text("propagationPolicy"),
    5: _texts("dryRun"),
    6: _optional_flag("ignoreStoreReadErrorWithClusterBreakingPotential"),
}
_EVICTION: Message = {1: _part("metadata", _METADATA), 2: _part("deleteOptions", _DELETE_OPTIONS)}
_REFERENCE: Message = {
    1: _text("kind"),
    2: _text("namespace"),
    3: _text("name"),
    4: _text("uid"),
    5: _text("apiVersion"),
    6: _text("resourceVersion"),
    7: _text("fieldPath"),
}
_BINDING: Message = {1: _part("metadata", _METADATA), 2: _part("target", _REFERENCE)}

KINDS: Mapping[str, Message] = MappingProxyType(
    {
        "Binding": _BINDING,
        "ConfigMap": _CONFIG_MAP,
        "CronJob": _kind(_CRON_JOB_SPEC),
        "DeleteOptions": _DELETE_OPTIONS,
        "Deployment": _kind(_DEPLOYMENT_SPEC),
        "Eviction": _EVICTION,
        "HorizontalPodAutoscaler": _kind(_AUTOSCALER_SPEC),
        "Job": _kind(_JOB_SPEC),
        "Namespace": _kind({1: _texts("finalizers")}),
        "Pod": _kind(_POD_SPEC),
        "PodDisruptionBudget": _kind(_BUDGET_SPEC),
        "PriorityClass": _PRIORITY_CLASS,
        "Service": _kind(_SERVICE_SPEC),
        "ServiceAccount": _SERVICE_ACCOUNT,
    }
)
"""Messages by kind."""
