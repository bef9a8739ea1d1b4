"""The kubectl command that makes a change.

Most of a pod cannot be changed once it exists. So a change of a pod with a template becomes one of its controller,
and a pod without one is made again. Only gates may go, and tolerations come, on the pod itself. For a pod of a Job
nothing is known to work: then there is no command, and the note says what to do.
"""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.well_known import NOT_READY, UNREACHABLE
from kscheduler.explain.situation import NO_SITUATION, PodState, Situation
from kscheduler.explain.suggestions.changed import ADD, ObjectChange, Operation
from kscheduler.explain.suggestions.claim_origins import OF_DEVICES, made_from_a_template, only_in_the_file, shared_with
from kscheduler.explain.suggestions.makers import TEMPLATES_MANAGER, PodMaker, maker_of, nothing_to_run
from kscheduler.explain.suggestions.suggestion import ChangeKind, Step, Suggestion
from kscheduler.scenario.scenario import ClusterObjects

_IN_PLACE: Final = (ChangeKind.GATE, ChangeKind.TOLERATION)
# Controllers that do not replace a waiting pod when their template changes.
_KEEPS_ITS_PODS: Final = ("StatefulSet", "ReplicaSet", "ReplicationController")
_NOT_BY_KUBECTL: Final = (
    ChangeKind.ADD_NODE,
    ChangeKind.CLAIM_ZONE,
    ChangeKind.GROUP_MEMBERS,
    ChangeKind.GROUP_TOPOLOGY,
    ChangeKind.PLUGIN,
    ChangeKind.EXTENDER,
    ChangeKind.POOL_UPDATE,
)
# Deletes the object and creates it again.
_REPLACE: Final = "kubectl replace --force -f -"
# For the members of a group: of more controllers they would be a page.
_MOST_COMMANDS: Final = 8
# Members that one command names.
MOST_NAMED: Final = 100
_SPEC: Final = "/spec/"
_OF_A_TOLERATION: Final = "/spec/tolerations/"
_APPENDED: Final = f"{_OF_A_TOLERATION}-"
_OF_TOLERATION: Final = re.compile(rf"{_OF_A_TOLERATION}(?P<place>\d+)")
_OF_RESOURCES: Final = re.compile(
    r"/spec/(?P<list>containers|initContainers)/(?P<number>\d+)/resources/(?P<field>requests|limits)/(?P<resource>[^/]+)"
)
# The taints that the API server's admission lets each new pod tolerate for a while.
_OF_ADMISSION: Final = ((NOT_READY, "NoExecute"), (UNREACHABLE, "NoExecute"))


def command_of(suggestion: Suggestion, pod: Pod, objects: ClusterObjects, situation: Situation) -> str:
    """A line for a shell; empty where kubectl cannot do it: a new node, a pod that is only a manifest yet."""
    return " && ".join(commands_of(suggestion, pod, objects, situation))


def commands_of(suggestion: Suggestion, pod: Pod, objects: ClusterObjects, situation: Situation) -> list[str]:
    """The same, one command after the other."""
    of_the_pod = _changes_of(pod, suggestion)
    is_new = situation.pod_state is PodState.NEW
    if of_the_pod and (is_new or maker_in_the_way(suggestion, pod, objects) is not None):
        return []
    if made_from_a_template(suggestion, pod, objects, is_new=is_new) or only_in_the_file(suggestion, situation):
        return []
    # Claims are made from their templates when the pod is made again: so the templates come first.
    parts = [_other_command(step) for step in suggestion.steps if _is_of_a_template(step)]
    parts += [part for change in of_the_pod for part in _pod_commands(change, suggestion, pod, objects)]
    parts += [_other_command(step) for step in suggestion.steps if not _is_of_a_template(step)]
    if needs_new_claims(suggestion, situation) and not of_the_pod:  # beside them a change of the pod makes it again
        parts.append(_again(pod, objects))
    return [part for part in parts if part] if _is_whole(suggestion) else []


def commands_of_members(suggestion: Suggestion, pods: Sequence[Pod], objects: ClusterObjects) -> list[str]:
    """The commands of a change that is made in each member of a pod group; none where they would be a page.

    A template is changed once. Members whose controller does not replace them are deleted by one command, in the end.
    Members without a controller that change alike are changed by one command.
    """
    commands: dict[str, None] = {}
    kept: list[Pod] = []
    alone: dict[str, list[Pod]] = {}
    for pod in pods:
        if maker_of(pod, objects) is None and (own := _changes_of(pod, suggestion)):
            patch = _added(own[0].patch) if _is_in_place(suggestion) else own[0].patch
            alone.setdefault(_json(patch), []).append(pod)
            continue
        for command in commands_of(suggestion, pod, objects, NO_SITUATION):
            if command == _deletion_of(pod):
                kept.append(pod)
            else:
                commands[command] = None
    together = [_command_for_all(found, patch, suggestion) for patch, found in alone.items()]
    every = [*commands, *together, *([_deletion_of(*kept)] if kept else [])]
    most = max(map(len, (kept, *alone.values())))
    return every if len(every) <= _MOST_COMMANDS and most <= MOST_NAMED else []


def _command_for_all(pods: Sequence[Pod], patch: str, suggestion: Suggestion) -> str:
    """Pods of one namespace without a controller, all with the same change."""
    names = [pod.metadata.name for pod in pods]
    if len(pods) == 1 and _is_in_place(suggestion):
        return _line("patch", "pod", names[0], pods[0], "--type=json", "-p", patch)
    get = _line("get", "pod", *names, pods[0], "-o", "yaml")
    if _is_in_place(suggestion):
        return f"{get} | {_quoted('kubectl', 'patch', '-f', '-', '--type=json', '-p', patch)}"
    # In YAML kubectl would print one pod after the other without a line between them.
    output = "yaml" if len(pods) == 1 else "json"
    return f"{get} | {_local(patch, output)} | {_REPLACE}"


def _is_whole(suggestion: Suggestion) -> bool:
    """Whether kubectl can do all of it: half of a pair helps nobody."""
    return not any(step.kind in _NOT_BY_KUBECTL for step in suggestion.steps)


# --- claims that were made from a template ----------------------------------------------------------------------------


def needs_new_claims(suggestion: Suggestion, situation: Situation) -> bool:
    """Whether the pod has to be made again, so that its claims are made from templates as they are then."""
    return situation.pod_state is not PodState.NEW and any(map(_is_of_a_template, suggestion.steps))


def _is_of_a_template(step: Step) -> bool:
    return step.kind is ChangeKind.NEW_CLAIM or (step.kind in OF_DEVICES and bool(step.facts["template"]))


def _again(pod: Pod, objects: ClusterObjects) -> str:
    """The pod goes with its claims, and comes again: by its controller, if it has one."""
    if maker_of(pod, objects) is not None:
        return _deletion_of(pod)
    return f"{_line('get', 'pod', pod.metadata.name, pod, '-o', 'yaml')} | {_REPLACE}"


def _note_on_claims(suggestion: Suggestion, pod: Pod, objects: ClusterObjects) -> str:
    named = (step.facts.get("claims") or [step.facts["claim"]] for step in suggestion.steps if _is_of_a_template(step))
    claims = list(dict.fromkeys(chain.from_iterable(named)))
    maker = maker_of(pod, objects)
    by = f", which {maker.text} makes again" if maker is not None else ""
    made, go = ("claim", "goes") if len(claims) == 1 else ("claims", "go")
    return f"{made} {' and '.join(claims)}, made from the old template, {go} with pod {pod.metadata.name}{by}"


# --- the pod ----------------------------------------------------------------------------------------------------------


def _pod_commands(change: ObjectChange, suggestion: Suggestion, pod: Pod, objects: ClusterObjects) -> list[str]:
    maker = maker_of(pod, objects)
    if maker is not None and maker.is_changeable and not _is_of_gates(suggestion):
        return _maker_commands(maker, change, pod)
    if _is_in_place(suggestion):
        return [_line("patch", "pod", pod.metadata.name, pod, "--type=json", "-p", _json(_added(change.patch)))]
    again = _line("get", "pod", pod.metadata.name, pod, "-o", "yaml")
    return [f"{again} | {_local(_json(change.patch))} | {_REPLACE}"]


def _added(patch: Iterable[Operation]) -> tuple[Operation, ...]:
    """Tolerations that are changed are added: of a pod that exists none may be changed."""
    return tuple(
        Operation(ADD, _APPENDED, each.value) if _OF_TOLERATION.fullmatch(each.path) else each for each in patch
    )


def maker_in_the_way(suggestion: Suggestion, pod: Pod, objects: ClusterObjects) -> PodMaker | None:
    """Who would make the pod again, without the change, if it were replaced."""
    maker = maker_of(pod, objects)
    if maker is None or not _is_whole(suggestion) or not _changes_of(pod, suggestion) or _is_in_place(suggestion):
        return None
    return maker if not maker.is_changeable or _is_of_gates(suggestion) else None


def _changes_of(pod: Pod, suggestion: Suggestion) -> Sequence[ObjectChange]:
    key = pod.metadata.namespace, pod.metadata.name
    return [
        change
        for change in suggestion.changes
        if change.resource == "pods" and not change.delete and (change.namespace, change.name) == key
    ]


def _is_in_place(suggestion: Suggestion) -> bool:
    return all(step.kind in _IN_PLACE for step in suggestion.steps)


def _is_of_gates(suggestion: Suggestion) -> bool:
    """Gates go from the pod: a webhook may have put them there, so that the template has none."""
    return any(step.kind is ChangeKind.GATE for step in suggestion.steps)


def command_note(suggestion: Suggestion, pod: Pod, objects: ClusterObjects, situation: Situation) -> str:
    """What to know before running the command, or why there is none; empty if the text says it all."""
    notes = (
        _note_on_command(suggestion, pod, objects, situation),
        _note_on_gates(suggestion, pod, objects),
        shared_with(suggestion, pod, objects),
    )
    return "; ".join(filter(None, notes))


def _note_on_gates(suggestion: Suggestion, pod: Pod, objects: ClusterObjects) -> str:
    """Gates of a template: the command frees this pod alone."""
    of_template = any(
        step.kind is ChangeKind.GATE and list(step.facts.get("owners", ())) == [TEMPLATES_MANAGER]
        for step in suggestion.steps
    )
    maker = maker_of(pod, objects)
    if not of_template or maker is None:
        return ""
    return f"the template of {maker.text} has the gates: the pods that it makes from now on have them again"


def _note_on_command(suggestion: Suggestion, pod: Pod, objects: ClusterObjects, situation: Situation) -> str:
    is_new = situation.pod_state is PodState.NEW
    maker = maker_in_the_way(suggestion, pod, objects)
    if maker is not None and not is_new:
        return nothing_to_run((maker,))
    if note := made_from_a_template(suggestion, pod, objects, is_new=is_new):
        return note if _is_whole(suggestion) else ""
    if note := only_in_the_file(suggestion, situation):
        return note
    replaced = {
        " ".join(command.split()[2:4])
        for command in commands_of(suggestion, pod, objects, situation)
        if command.endswith(_REPLACE)
    }
    if not replaced:
        return ""
    what = " and ".join(sorted(replaced))
    them, they = ("it", "it") if len(replaced) == 1 else ("them", "they")
    note = f"the command deletes {what} and creates {them} again: {they} cannot be changed in place"
    return f"{note}; {_note_on_claims(suggestion, pod, objects)}" if needs_new_claims(suggestion, situation) else note


def _maker_commands(maker: PodMaker, change: ObjectChange, pod: Pod) -> list[str]:
    kind = maker.kind.lower()
    of_resources = [each for each in change.patch if _OF_RESOURCES.fullmatch(each.path)]
    rest = [each for each in change.patch if not _OF_RESOURCES.fullmatch(each.path)]
    commands: list[str] = []
    if of_resources:
        commands.append(_set_resources(maker, of_resources, pod) or _merge_resources(maker, of_resources, pod))
    if rest:
        commands.append(_line("patch", kind, maker.name, pod, "--type=json", "-p", _json(_of_template(rest, pod))))
    return [*commands, _deletion_of(pod)] if maker.kind in _KEEPS_ITS_PODS else commands


def _deletion_of(*pods: Pod) -> str:
    """Of pods of one namespace, as those of a group are."""
    return _line("delete", "pod", *(pod.metadata.name for pod in pods), pods[0])


def _set_resources(maker: PodMaker, patch: Iterable[Operation], pod: Pod) -> str:
    """`kubectl set resources`, which reads better, where all that changes is one request of one container."""
    operations = tuple(patch)
    steps = operations[0].path.split("/")[1:] if len(operations) == 1 else []
    if len(steps) != 6 or steps[1] != "containers" or steps[4] != "requests":
        return ""
    container = pod.spec.containers[int(steps[2])].name
    resource = steps[5].replace("~1", "/").replace("~0", "~")
    queried = f"--requests={resource}={operations[0].value}"
    return _line("set", "resources", maker.kind.lower(), maker.name, pod, "-c", container, queried)


def _merge_resources(maker: PodMaker, patch: Iterable[Operation], pod: Pod) -> str:
    """A strategic merge of requests and limits.

    A template may have limits alone, of which the API server makes a pod's requests: a JSON patch that replaces or
    removes what only the pod has would be refused as a whole.
    """
    containers: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for operation in patch:
        found = _OF_RESOURCES.fullmatch(operation.path)
        assert found is not None  # noqa: S101  the caller has chosen them so
        listed = pod.spec.containers if found["list"] == "containers" else pod.spec.init_containers
        resource = found["resource"].replace("~1", "/").replace("~0", "~")
        amounts = containers.setdefault((found["list"], listed[int(found["number"])].name), {})
        amounts.setdefault(found["field"], {})[resource] = operation.value  # of a removal nothing: it goes
    spec: dict[str, list[Any]] = {}
    for (of_list, name), resources in containers.items():
        spec.setdefault(of_list, []).append({"name": name, "resources": resources})
    merged = msgspec.json.encode({"spec": {"template": {"spec": spec}}}).decode()
    return _line("patch", maker.kind.lower(), maker.name, pod, "-p", merged)


def _of_template(patch: Iterable[Operation], pod: Pod) -> tuple[Operation, ...]:
    """The patch for the template, where admission has added no tolerations yet: it has them as a whole list."""
    operations = tuple(patch)
    changed = {found["place"]: each.value for each in operations if (found := _OF_TOLERATION.fullmatch(each.path))}
    own = [
        changed.get(str(place)) or msgspec.to_builtins(each)
        for place, each in enumerate(pod.spec.tolerations)
        if (each.key, each.effect) not in _OF_ADMISSION
    ]
    added = [each.value for each in operations if each.path == _APPENDED]
    whole = (Operation(ADD, "/spec/tolerations", own + added),) if added or changed else ()
    return tuple(
        Operation(each.op, f"/spec/template/spec/{each.path.removeprefix(_SPEC)}", each.value)
        for each in (*whole, *(each for each in operations if not each.path.startswith(_OF_A_TOLERATION)))
    )


# --- other objects ----------------------------------------------------------------------------------------------------


def _other_command(step: Step) -> str:
    match step.kind:
        case ChangeKind.UNCORDON:
            return _quoted("kubectl", "uncordon", step.changes[0].name)
        case ChangeKind.TAINT:
            taints = [_taint(taint) + "-" for taint in step.facts["taints"]]
            return _quoted("kubectl", "taint", "node", step.changes[0].name, *taints)
        case ChangeKind.NODE_LABEL:
            return _quoted("kubectl", "label", "node", step.changes[0].name, "--overwrite", *_labels(step))
        case ChangeKind.DELETE_PODS | ChangeKind.RELEASE_DEVICES | ChangeKind.DEVICE_TAINT_RULE:
            return _deletion(step)
        case ChangeKind.NAMESPACE_LABEL:
            return _quoted("kubectl", "label", "namespace", step.changes[0].name, "--overwrite", *_labels(step))
        case ChangeKind.GROUP_MIN_COUNT:
            group = step.changes[0]
            patch = ("--type=json", "-p", _json(group.patch))
            # The name of the kind alone may be that of another API's groups.
            kind = group.resource if "." in group.resource else POD_GROUPS.resource
            return _quoted("kubectl", "patch", kind, group.name, "-n", group.namespace, *patch)
        case ChangeKind.DETACH_VOLUME:
            return _quoted("kubectl", "delete", "volumeattachment", step.changes[0].name)
        case ChangeKind.CLASS_TOPOLOGY:
            return _replaced("storageclass", step.changes[0])
        case ChangeKind.CLAIM_CLASS | ChangeKind.CLAIM_SIZE:
            return _replaced("pvc", step.changes[0])
        case kind if kind in OF_DEVICES:
            return _of_devices(step)
        case _:
            return ""


def _deletion(step: Step) -> str:
    """A claim that was made for a pod goes with it: to delete it, too, would end in NotFound."""
    kinds = {"pods": "pod", "resourceclaims": "resourceclaim", "devicetaintrules": "devicetaintrule"}
    names: dict[tuple[str, str], list[str]] = {}
    gone = {each["claim"] for each in step.facts.get("claims", ()) if each["goesWithItsPod"]}
    for change in step.changes:
        if not (change.resource == "resourceclaims" and f"{change.namespace}/{change.name}" in gone):
            names.setdefault((kinds[change.resource], change.namespace), []).append(change.name)
    lines = [
        _quoted("kubectl", "delete", kind, *(("-n", space) if space else ()), *found)
        for (kind, space), found in sorted(names.items())
    ]
    return " && ".join(lines)


def _labels(step: Step) -> list[str]:
    return [f"{key}-" if value is None else f"{key}={value}" for key, value in step.facts["labels"].items()]


def _of_devices(step: Step) -> str:
    """A claim's spec is for good; one that was made from a template is made again with the pod."""
    (change,) = step.changes
    template = step.facts["template"]
    if not template:
        return _replaced("resourceclaim", change)
    patch = tuple(Operation(each.op, f"/spec{each.path}", each.value) for each in change.patch)
    return _replaced("resourceclaimtemplate", ObjectChange("resourceclaimtemplates", change.namespace, template, patch))


def _replaced(kind: str, change: ObjectChange) -> str:
    """What cannot be changed is made again. A claim loses nothing by that while it has neither volume nor devices."""
    of_namespace = ("-n", change.namespace) if change.namespace else ()
    get = _quoted("kubectl", "get", kind, change.name, *of_namespace, "-o", "yaml")
    return f"{get} | {_local(_json(change.patch))} | {_REPLACE}"


def _local(patch: str, output: str = "yaml") -> str:
    return _quoted("kubectl", "patch", "--local", "-f", "-", "--type=json", "-p", patch, "-o", output)


def _taint(taint: Mapping[str, str]) -> str:
    value = f"={taint['value']}" if taint["value"] else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _line(*words: Any) -> str:
    """A kubectl line; a pod among the words stands for its namespace."""
    return _quoted("kubectl", *(w for word in words for w in (_in(word) if isinstance(word, Pod) else (word,))))


def _in(pod: Pod) -> tuple[str, str]:
    return "-n", pod.metadata.namespace


def _quoted(*words: str) -> str:
    return shlex.join(words)


def _json(patch: Iterable[Operation]) -> str:
    return msgspec.json.encode([operation.tree for operation in patch]).decode()
