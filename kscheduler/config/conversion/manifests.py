"""The manifest that runs kube-scheduler, with the flags it gives: ours in its place.

The problem: who has a cluster made by kubeadm has no configuration file, but a static pod with flags. The idea: the
manifest stays what it is, with its volumes, environment and host aliases, and only what is kube-scheduler's in it is
exchanged: names, labels, image, command, probes, room. Flags that mean something here are kept, and those that mean
nothing are left out and listed; what kube-scheduler's defaults have said (its name, its Lease) is written out, as ours
are other ones. A file that a flag names and that no volume brings gets a volume.

A workload (Deployment, DaemonSet ...) that runs kube-scheduler is exchanged in the same way, by its template.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME, SCHEDULER_PORT
from kscheduler.config.conversion.located import Fields, Items, Notes, plain
from kscheduler.config.errors import ConfigError, Problem

# Of flags (`--name=value`): which of them, by index, mean nothing here, with the reason.
FlagCheck = Callable[[Sequence[str]], Mapping[int, str]]

IMAGE: Final = "registry.example/kscheduler:0.1.0"
THEIRS, OURS = "kube-scheduler", "kscheduler"
_WORKLOADS: Final = frozenset(("DaemonSet", "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"))
# No admission reads a static pod, so the number of the class stands beside it.
_PRIORITY: Final = {"priority": 2_000_001_000, "priorityClassName": "system-node-critical"}
_RESOURCES: Final = {"requests": {"cpu": "200m", "memory": "384Mi"}}
_PROBES: Final = {
    "startupProbe": ("/livez", {"failureThreshold": 24, "periodSeconds": 10, "timeoutSeconds": 15}),
    "livenessProbe": ("/livez", {"failureThreshold": 8, "periodSeconds": 10, "timeoutSeconds": 15}),
    "readinessProbe": ("/readyz", {"failureThreshold": 3, "periodSeconds": 5, "timeoutSeconds": 15}),
}
# Flags that name a file.
_FILES: Final = frozenset(
    (
        *("config", "kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig", "client-ca-file"),
        *("requestheader-client-ca-file", "tls-cert-file", "tls-private-key-file"),
    )
)
_OLD_FLAGS: Final = {
    "lock-object-name": "leader-elect-resource-name",
    "lock-object-namespace": "leader-elect-resource-namespace",
}
_GATES: Final = "feature-gates"
_POLICY_FLAGS: Final = frozenset(("policy-config-file", "policy-configmap", "policy-configmap-namespace"))
# What kube-scheduler means without a file: ours are called otherwise. A file has its defaults here, too.
_DEFAULTS: Final = (
    f"--scheduler-name={DEFAULT_SCHEDULER_NAME}",
    "--leader-elect=true",
    f"--leader-elect-resource-name={THEIRS}",
    "--leader-elect-resource-namespace=kube-system",
)
_OF_LOGS: Final = ("--logging-format=json", "--v=2")
_OF_THE_SERVER: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
)
_OF_THE_KUBELET: Final = ("kubernetes.io/config.", "kubectl.kubernetes.io/last-applied", "deployment.kubernetes.io/")


@dataclass(frozen=True, slots=True)
class GivenFlag:
    """A flag of the command line."""

    name: str
    value: str | None
    line: int

    @property
    def text(self) -> str:
        """As one word."""
        return f"--{self.name}" if self.value is None else f"--{self.name}={self.value}"


def runs_kube_scheduler(tree: Fields) -> bool:
    """Whether it is a pod or a workload with a container of kube-scheduler."""
    return _container_of(tree) is not None


def of_manifest(tree: Fields, where: str, notes: Notes, flag_check: FlagCheck) -> dict[str, Any]:
    """The manifest with kscheduler in kube-scheduler's place; `runs_kube_scheduler` holds.

    Raises `ConfigError` for a manifest that no API server and no kubelet would take.
    """
    found = _container_of(tree)
    assert found is not None  # noqa: S101  said above
    given, index, words = found
    is_pod = tree.get("kind") == "Pod"
    flags = _kept(list(_flags(words)), notes, flag_check)
    result: dict[str, Any] = _without_null(plain(tree))
    result.pop("status", None)
    problems = list(_misshapen(result, is_pod=is_pod))
    if problems:
        raise ConfigError(problems, where)
    _rename(result, is_pod=is_pod)
    spec = result["spec"] if is_pod else result["spec"]["template"]["spec"]
    container = spec["containers"][index]
    _exchange(container, spec, given["containers"][index], flags, notes)
    _mount(container, spec, flags, notes, given["containers"][index].line, is_pod=is_pod)
    if is_pod:
        spec.pop("nodeName", None)  # of the mirror that the API server shows
        spec.update({name: value for name, value in _PRIORITY.items() if spec.get(name) is None})
    _secure(container, spec, is_pod=is_pod)
    return result


# --- what is there ----------------------------------------------------------------------------------------------------


def _container_of(tree: Fields) -> tuple[Fields, int, list[tuple[str, int]]] | None:
    """The pod's spec, the index of the container, and the words behind its program, each with its line."""
    spec = tree.get("spec")
    if str(tree.get("kind")) in _WORKLOADS and isinstance(spec, Fields):
        template = spec.get("template")
        spec = template.get("spec") if isinstance(template, Fields) else None
    elif tree.get("kind") != "Pod":
        return None
    containers = spec.get("containers") if isinstance(spec, Fields) else None
    for index, container in enumerate(containers if isinstance(containers, Items) else ()):
        words = _words_of_program(container) if isinstance(container, Fields) else None
        if words is not None:
            return spec, index, words  # type: ignore[return-value]  # it has containers
    return None


def _words_of_program(container: Fields) -> list[tuple[str, int]] | None:
    """The words behind kube-scheduler: of `command` and `args`, also where a wrapper or a shell starts it."""
    words: list[tuple[str, int]] = []
    for name in ("command", "args"):
        given = container.get(name)
        for word, line in zip(given, given.lines, strict=True) if isinstance(given, Items) else ():
            words += [(part, line) for part in _split(str(word))]
    for index, (word, _) in enumerate(words):
        program = word.rpartition("/")[2]
        of_hyperkube = program == "scheduler" and index > 0 and words[index - 1][0].endswith("hyperkube")
        if program == THEIRS or of_hyperkube:
            return words[index + 1 :]
    image = str(container.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
    return words if image.startswith(THEIRS) and not container.get("command") else None


def _split(word: str) -> list[str]:
    """A shell's script as words, up to where its output goes; any other word as it is."""
    if not re.search(rf"\b{THEIRS}\s", word):
        return [word]
    try:
        parts = shlex.split(word.partition("|")[0])
    except ValueError:
        return [word]
    end = next(
        (index for index, part in enumerate(parts) if re.match(r"\d*&?>", part) or part in (";", "&", "&&")), None
    )
    return parts[:end]


def _flags(words: Sequence[tuple[str, int]]) -> Iterator[GivenFlag]:
    """`--name=value`, `--name value`, `-v2`. Arguments that are no flags kube-scheduler does not take."""
    index = 0
    while index < len(words):
        word, line = words[index]
        index += 1
        name, equals, value = word.lstrip("-").partition("=")
        short = re.fullmatch(r"-v(\d+)", word)
        if short:
            yield GivenFlag("v", short[1], line)
        elif equals or index == len(words) or re.match(r"--?[A-Za-z]", words[index][0]):
            yield GivenFlag(name.replace("_", "-"), value if equals else None, line)
        else:
            yield GivenFlag(name.replace("_", "-"), words[index][0], line)
            index += 1


def _without_null(value: Any) -> Any:
    """What is null is not given."""
    if isinstance(value, dict):
        return {name: _without_null(inner) for name, inner in value.items() if inner is not None}
    return [_without_null(each) for each in value] if isinstance(value, list) else value


_OBJECTS: Final = ("metadata", "metadata.labels", "metadata.annotations", "selector", "selector.matchLabels")
_OF_A_POD: Final = ("securityContext", "volumes", "containers")
_OF_A_CONTAINER: Final = ("securityContext", "resources", "volumeMounts")
_LISTS: Final = frozenset(("volumes", "containers", "volumeMounts"))


def _misshapen(result: dict[str, Any], *, is_pod: bool) -> Iterator[Problem]:
    """What is no object, or no list of objects, of all that is looked into or exchanged."""
    yield from _wrong(result, "", _OBJECTS[:3])
    spec, path = result["spec"], "spec"
    if not is_pod:
        yield from _wrong(spec, "spec", _OBJECTS[3:])
        yield from _wrong(spec["template"], "spec.template", _OBJECTS[:3])
        spec, path = spec["template"]["spec"], "spec.template.spec"
    yield from _wrong(spec, path, _OF_A_POD)
    for index, container in enumerate(spec["containers"]):
        if isinstance(container, dict):
            yield from _wrong(container, f"{path}.containers[{index}]", _OF_A_CONTAINER)


def _wrong(parent: dict[str, Any], where: str, names: Sequence[str]) -> Iterator[Problem]:
    for name in names:
        value: Any = parent
        for step in name.split("."):
            value = value.get(step, {}) if isinstance(value, dict) else {}
        path = f"{where}.{name}".removeprefix(".")
        if name not in _LISTS:
            if not isinstance(value, dict):
                yield Problem(path, "expected an object")
        elif value and not (isinstance(value, list) and all(isinstance(each, dict) for each in value)):
            yield Problem(path, "expected a list of objects")


# --- what becomes of it -----------------------------------------------------------------------------------------------


def _kept(given: list[GivenFlag], notes: Notes, flag_check: FlagCheck) -> list[GivenFlag]:
    """The flags that mean something here. All others are noted."""
    flags = [
        GivenFlag(_OLD_FLAGS.get(flag.name, flag.name), part, flag.line) for flag in given for part in _parts(flag)
    ]
    reasons = flag_check([flag.text for flag in flags])
    kept = []
    for index, flag in enumerate(flags):
        if flag.name in _POLICY_FLAGS:
            reason = (
                "not converted: convert the policy that it names by a call of its own, and name the result by --config"
            )
            notes.add(flag.line, f"--{flag.name}", reason)
        elif index in reasons:
            notes.add(flag.line, flag.text if flag.name == _GATES else f"--{flag.name}", f"left out: {reasons[index]}")
        else:
            kept.append(flag)
        if flag.name == "config" and flag.value:
            reason = "kept, and what the file says is judged by a call of its own: kscheduler config check"
            notes.add(flag.line, "--config", f"{reason} {flag.value} (or config convert, of a version before v1)")
        if flag.name == "leader-elect" and flag.value in ("false", "0", "f", "F", "FALSE", "False"):
            reason = (
                "kept: nothing keeps this one and a kube-scheduler from deciding at the same time; stop that one first"
            )
            notes.add(flag.line, "--leader-elect", reason)
    return list(_with_gates_together(kept))


def _parts(flag: GivenFlag) -> list[str | None]:
    """Gates one by one, since each may mean something or nothing by itself."""
    if flag.name != _GATES:
        return [flag.value]
    return [part for part in (flag.value or "").split(",") if part.strip()] or [flag.value]


def _with_gates_together(flags: list[GivenFlag]) -> Iterator[GivenFlag]:
    gates = [flag for flag in flags if flag.name == _GATES]
    for flag in flags:
        if flag.name != _GATES:
            yield flag
        elif flag is gates[0]:
            yield GivenFlag(_GATES, ",".join(each.value or "" for each in gates), flag.line)


def _rename(result: dict[str, Any], *, is_pod: bool) -> None:
    """Names and labels: of two workloads neither may select the pods of the other."""
    spec = result["spec"]
    selector = {} if is_pod else spec.setdefault("selector", {})
    of_pods = result if is_pod else spec["template"]
    labels = [of_pods.setdefault("metadata", {}).setdefault("labels", {})]
    if not is_pod:
        is_plain = result.get("kind") == "ReplicationController"  # its selector is a plain map
        labels.append(selector if is_plain else selector.setdefault("matchLabels", {}))
        labels.append(result.setdefault("metadata", {}).setdefault("labels", {}))
    for each in labels:
        each.update({key: OURS for key, value in each.items() if value == THEIRS})
        if OURS not in each.values():
            each["component"] = OURS
    metadata = result["metadata"]
    name = str(metadata.get("name") or THEIRS)
    metadata["name"] = OURS if is_pod or THEIRS not in name else name.replace(THEIRS, OURS)
    if not is_pod and metadata["name"] == name:
        metadata["name"] = f"{name}-{OURS}"
    metadata.setdefault("namespace", "kube-system")
    for each in (metadata, of_pods["metadata"]):
        for field in _OF_THE_SERVER:
            each.pop(field, None)
        annotations = each.get("annotations") or {}
        each["annotations"] = {key: text for key, text in annotations.items() if not key.startswith(_OF_THE_KUBELET)}
        if not each["annotations"]:
            del each["annotations"]


def _exchange(
    container: dict[str, Any], spec: dict[str, Any], given: Fields, flags: list[GivenFlag], notes: Notes
) -> None:
    """The program, and what kubelets know of it."""
    values = {flag.name: flag.value for flag in flags}
    port = values.get("secure-port", str(SCHEDULER_PORT)) or ""
    added = (
        [f"--secure-port={port}", *_OF_LOGS] if "config" in values else [f"--secure-port={port}", *_DEFAULTS, *_OF_LOGS]
    )
    added = [word for word in added if word[2:].partition("=")[0] not in values]
    if "log-format" in values:
        added.remove(_OF_LOGS[0])
    container.pop("command", None)
    container.update(name=OURS, image=IMAGE, args=["run", *(flag.text for flag in flags), *added])
    notes.add(given.line_of("image"), "image", "write yours, by digest: this one is a placeholder")
    container["imagePullPolicy"] = container.get("imagePullPolicy") or "IfNotPresent"
    had = plain(given.get("resources") or {})
    container["resources"] = plain(_RESOURCES)
    if had not in ({}, {"requests": {"cpu": "100m"}}):  # which is kubeadm's
        reason = f"not converted: the room is that of 1,000 nodes, in place of {had}; docs/operations.md has a table"
        notes.add(given.line_of("resources"), "resources", reason)
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    for name in (*_PROBES, "ports"):
        container.pop(name, None)
    if not port.isdecimal() or port == "0":
        notes.add(given.line, "probes", "left out: --secure-port says no port that they could ask")
        return
    container["ports"] = [{"name": "https", "containerPort": int(port), "protocol": "TCP"}]
    address = values.get("bind-address") or "0.0.0.0"
    for name, (path, times) in _PROBES.items():
        http_get: dict[str, Any] = {"path": path, "port": "https", "scheme": "HTTPS"}
        if "$(" not in address and address not in ("0.0.0.0", "::"):
            http_get = {"host": address, **http_get}
        elif spec.get("hostNetwork"):
            http_get = {"host": "127.0.0.1", **http_get}
        container[name] = {"httpGet": http_get, **times}


def _mount(
    container: dict[str, Any], spec: dict[str, Any], flags: list[GivenFlag], notes: Notes, line: int, *, is_pod: bool
) -> None:
    """A volume for each file that a flag names and that none of the given volumes brings."""
    mounts, volumes = list(container.get("volumeMounts") or []), list(spec.get("volumes") or [])
    for flag in flags:
        for path, kind in _paths(flag):
            if any(_covers(str(mount.get("mountPath")), path) for mount in mounts):
                continue
            if not is_pod:
                notes.add(flag.line or line, f"--{flag.name}", f"no volume brings {path}: add one")
                continue
            name = f"{flag.name}-{len(volumes)}"[-63:]
            volumes.append({"name": name, "hostPath": {"path": path, "type": kind}})
            mounts.append({"name": name, "mountPath": path, **({"readOnly": True} if kind == "File" else {})})
    if mounts:
        container["volumeMounts"], spec["volumes"] = mounts, volumes


def _paths(flag: GivenFlag) -> Iterator[tuple[str, str]]:
    """The files and folders that a flag names, each with its type as a volume of the host."""
    value = flag.value or ""
    if flag.name in _FILES and value.startswith("/"):
        yield value, "File"
    elif flag.name == "cert-dir" and value.startswith("/"):
        yield value, "DirectoryOrCreate"
    elif flag.name == "tls-sni-cert-key":
        for path in value.partition(":")[0].split(","):
            yield path.strip(), "File"


def _covers(mount: str, path: str) -> bool:
    return path == mount or path.startswith(f"{mount.rstrip('/')}/")


def _secure(container: dict[str, Any], spec: dict[str, Any], *, is_pod: bool) -> None:
    """No capabilities, no way to more rights, a root that nobody writes; the user as given, else who may read.

    A file of the host is root's and readable by nobody else (scheduler.conf); a Secret or a ConfigMap is for anybody.
    """
    pod, own = spec.setdefault("securityContext", None) or {}, container.get("securityContext") or {}
    spec["securityContext"] = {**pod, "seccompProfile": pod.get("seccompProfile") or {"type": "RuntimeDefault"}}
    users = {name: own.get(name, pod.get(name)) for name in ("runAsUser", "runAsGroup", "runAsNonRoot")}
    users = {name: value for name, value in users.items() if value is not None}
    if not users and (is_pod or any("hostPath" in volume for volume in spec.get("volumes") or ())):
        users = {"runAsUser": 0, "runAsGroup": 0}
    container["securityContext"] = {
        **users,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
