"""Rules of a pod that says which operating system it is for: what only the other one has may not be set."""

from collections.abc import Iterator

from kscheduler.simulation.kinds import field_rules as rules
from kscheduler.simulation.kinds.api_errors import FieldCause, Object

_SYSTEMS = ("linux", "windows")
_NOT_OF_WINDOWS = "cannot be set for a windows pod"
_NOT_OF_LINUX = "windows options cannot be set for a linux pod"
_OF_PODS = (
    "appArmorProfile",
    "seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "shareProcessNamespace",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_OF_SPECS = frozenset({"hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"})
"""Those that stand in the spec itself. Of `hostPID` and `hostIPC` the server knows only whether they are true."""
_FLAGS = frozenset({"hostPID", "hostIPC"})
_OF_CONTAINERS = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def validate_system(spec: Object, path: str) -> list[FieldCause]:
    """The operating system of a pod spec at `path`, and what it leaves out."""
    if spec.get("os") is None:
        return []
    name = spec["os"].get("name") or ""
    if not name:
        return [rules.required(f"{path}.os.name")]
    if name not in _SYSTEMS:
        return [rules.unsupported(f"{path}.os", name, _SYSTEMS)]
    if name == "linux":
        return [
            rules.forbidden_field(f"{where}.windowsOptions", _NOT_OF_LINUX)
            for where, context in [(f"{path}.securityContext", spec.get("securityContext") or {}), *_own(spec, path)]
            if context.get("windowsOptions") is not None
        ]
    causes = []
    for field in _OF_PODS:
        holder = spec if field in _OF_SPECS else spec.get("securityContext") or {}
        if holder.get(field) if field in _FLAGS else holder.get(field) is not None:
            where = path if field in _OF_SPECS else f"{path}.securityContext"
            causes.append(rules.forbidden_field(f"{where}.{field}", _NOT_OF_WINDOWS))
    return causes + [
        rules.forbidden_field(f"{where}.{field}", _NOT_OF_WINDOWS)
        for where, context in _own(spec, path)
        for field in _OF_CONTAINERS
        if context.get(field) is not None
    ]


def _own(spec: Object, path: str) -> Iterator[tuple[str, Object]]:
    """The security context of each container, with its place."""
    for kind in ("initContainers", "containers"):
        for place, container in enumerate(spec.get(kind) or ()):
            yield f"{path}.{kind}[{place}].securityContext", container.get("securityContext") or {}
