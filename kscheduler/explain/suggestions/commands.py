"""The kubectl command that makes a change.

Most of a pod cannot be changed once it exists. So a change of a pod with a template becomes one of its controller,
and a pod without one is made again. Only gates may go, and tolerations come, on the pod itself. For a pod of a Job
nothing is known to work: then there is no command, and the note says what to do.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any, Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.api.kinds import RESOURCE_CLAIM_TEMPLATES
from kscheduler.api.well_known import NOT_READY, UNREACHABLE
from kscheduler.explain.situation import NO_SITUATION, ObjectKey, PodState, Situation
from kscheduler.explain.suggestions.kubectl_lines import REPLACE_FORCED, kubectl, patch_json, patched_locally
from kscheduler.explain.suggestions.makers import PodMaker, maker_of, nothing_to_run
from kscheduler.explain.suggestions.object_changes import ADD, ObjectChange, Operation
from kscheduler.explain.suggestions.suggestion import Suggestion
from kscheduler.scenario.new_pods import is_simulated
from kscheduler.scenario.scenario import ClusterObjects

# Controllers that do not replace a waiting pod when their template changes.
_KEEPS_ITS_PODS: Final = ("StatefulSet", "ReplicaSet", "ReplicationController")
# For the members of a group: of more controllers they would be a page.
_MAX_COMMANDS: Final = 8
# Members that one command names.
MAX_NAMED: Final = 100
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
    is_new = _is_new(pod, situation)
    if of_the_pod and (is_new or maker_in_the_way(suggestion, pod, objects) is not None):
        return []
    if _no_command(suggestion, pod, objects, is_new=is_new) or only_in_the_file(suggestion, situation.of_file):
        return []
    # Claims are made from their templates when the pod is made again: so the templates come first.
    parts = [step.facts.command(step) for step in suggestion.steps if step.facts.new_claims]
    parts += [part for change in of_the_pod for part in _pod_commands(change, suggestion, pod, objects)]
    parts += [step.facts.command(step) for step in suggestion.steps if not step.facts.new_claims]
    if (
        needs_new_claims(suggestion, pod, situation) and not of_the_pod
    ):  # beside them a change of the pod makes it again
        parts.append(_again(pod, objects))
    return [part for part in parts if part] if _is_whole(suggestion) else []


def _is_new(pod: Pod, situation: Situation) -> bool:
    """Whether no cluster has the pod yet, and its controller."""
    return situation.pod_state is PodState.NEW or is_simulated(pod)


def commands_of_members(suggestion: Suggestion, pods: Sequence[Pod], objects: ClusterObjects) -> list[str]:
    """The commands of a change that is made in each member of a pod group; none where they would be a page.

    A template is changed once. Members whose controller does not replace them are deleted by one command, in the end.
    Members without a controller that change alike are changed by one command.
    """
    if any(is_simulated(pod) and _changes_of(pod, suggestion) for pod in pods):
        return []
    commands: dict[str, None] = {}
    kept: list[Pod] = []
    alone: dict[str, list[Pod]] = {}
    for pod in pods:
        if maker_of(pod, objects) is None and (own := _changes_of(pod, suggestion)):
            patch = _added(own[0].patch) if _is_in_place(suggestion) else own[0].patch
            alone.setdefault(patch_json(patch), []).append(pod)
            continue
        for command in commands_of(suggestion, pod, objects, NO_SITUATION):
            if command == _deletion_of(pod):
                kept.append(pod)
            else:
                commands[command] = None
    together = [_command_for_all(found, patch, suggestion) for patch, found in alone.items()]
    every = [*commands, *together, *([_deletion_of(*kept)] if kept else [])]
    most = max(map(len, (kept, *alone.values())))
    return every if len(every) <= _MAX_COMMANDS and most <= MAX_NAMED else []


def _command_for_all(pods: Sequence[Pod], patch: str, suggestion: Suggestion) -> str:
    """Pods of one namespace without a controller, all with the same change."""
    names = [pod.metadata.name for pod in pods]
    if len(pods) == 1 and _is_in_place(suggestion):
        return kubectl("patch", "pod", names[0], pods[0], "--type=json", "-p", patch)
    get = kubectl("get", "pod", *names, pods[0], "-o", "yaml")
    if _is_in_place(suggestion):
        return f"{get} | {kubectl('patch', '-f', '-', '--type=json', '-p', patch)}"
    # In YAML kubectl would print one pod after the other without a line between them.
    output = "yaml" if len(pods) == 1 else "json"
    return f"{get} | {patched_locally(patch, output)} | {REPLACE_FORCED}"


def _is_whole(suggestion: Suggestion) -> bool:
    """Whether kubectl can do all of it: half of a pair helps nobody."""
    return all(step.facts.by_kubectl for step in suggestion.steps)


def _no_command(suggestion: Suggestion, pod: Pod, objects: ClusterObjects, *, is_new: bool) -> str:
    """Why no command changes the first object for which there is none; empty if there is no such object."""
    notes = (step.facts.no_command(pod, objects, is_new=is_new) for step in suggestion.steps)
    return next(filter(None, notes), "")


# --- claims that were made from a template ----------------------------------------------------------------------------


def needs_new_claims(suggestion: Suggestion, pod: Pod, situation: Situation) -> bool:
    """Whether the pod has to be made again, so that its claims are made from templates as they are then."""
    return not _is_new(pod, situation) and any(step.facts.new_claims for step in suggestion.steps)


def _again(pod: Pod, objects: ClusterObjects) -> str:
    """The pod goes with its claims, and comes again: by its controller, if it has one."""
    if maker_of(pod, objects) is not None:
        return _deletion_of(pod)
    return f"{kubectl('get', 'pod', pod.metadata.name, pod, '-o', 'yaml')} | {REPLACE_FORCED}"


def _note_on_claims(suggestion: Suggestion, pod: Pod, objects: ClusterObjects) -> str:
    claims = list(dict.fromkeys(chain.from_iterable(step.facts.new_claims for step in suggestion.steps)))
    maker = maker_of(pod, objects)
    by = f", which {maker.text} makes again" if maker is not None else ""
    made, go = ("claim", "goes") if len(claims) == 1 else ("claims", "go")
    return f"{made} {' and '.join(claims)}, made from the old template, {go} with pod {pod.metadata.name}{by}"


# --- the pod ----------------------------------------------------------------------------------------------------------


def _pod_commands(change: ObjectChange, suggestion: Suggestion, pod: Pod, objects: ClusterObjects) -> list[str]:
    maker = maker_of(pod, objects)
    if maker is not None and maker.is_changeable and not _is_of_pod_alone(suggestion):
        return _maker_commands(maker, change, pod)
    if _is_in_place(suggestion):
        return [kubectl("patch", "pod", pod.metadata.name, pod, "--type=json", "-p", patch_json(_added(change.patch)))]
    again = kubectl("get", "pod", pod.metadata.name, pod, "-o", "yaml")
    return [f"{again} | {patched_locally(patch_json(change.patch))} | {REPLACE_FORCED}"]


def _added(patch: Iterable[Operation]) -> tuple[Operation, ...]:
    """Tolerations that are changed are added: of a pod that exists none may be changed."""
    return tuple(
        Operation(ADD, _APPENDED, each.value) if _OF_TOLERATION.fullmatch(each.path) else each for each in patch
    )


def only_in_the_file(suggestion: Suggestion, of_file: Collection[ObjectKey]) -> str:
    """Where the first object stands that the suggestion changes and that comes with the new pod; empty if none does."""
    for step in suggestion.steps:
        template = step.facts.claim_template
        for change in step.changes:
            key = change.resource, change.namespace, change.name
            if template:
                key = RESOURCE_CLAIM_TEMPLATES.plural, change.namespace, template
            if key in of_file:
                name = f"ResourceClaimTemplate {key[2]}" if template else f"{key[2]} ({key[0]})"
                return f"{name} is in the file: change it in the file"
    return ""


def maker_in_the_way(suggestion: Suggestion, pod: Pod, objects: ClusterObjects) -> PodMaker | None:
    """Who would make the pod again, without the change, if it were replaced."""
    maker = maker_of(pod, objects)
    if maker is None or not _is_whole(suggestion) or not _changes_of(pod, suggestion) or _is_in_place(suggestion):
        return None
    return maker if not maker.is_changeable or _is_of_pod_alone(suggestion) else None


def _changes_of(pod: Pod, suggestion: Suggestion) -> Sequence[ObjectChange]:
    key = pod.metadata.namespace, pod.metadata.name
    return [
        change
        for change in suggestion.changes
        if change.resource == "pods" and not change.delete and (change.namespace, change.name) == key
    ]


def _is_in_place(suggestion: Suggestion) -> bool:
    return all(step.facts.is_in_place for step in suggestion.steps)


def _is_of_pod_alone(suggestion: Suggestion) -> bool:
    return any(step.facts.is_of_pod_alone for step in suggestion.steps)


def command_note(suggestion: Suggestion, pod: Pod, objects: ClusterObjects, situation: Situation) -> str:
    """What to know before running the command, or why there is none; empty if the text says it all."""
    of_steps = (step.facts.note(pod, objects) for step in suggestion.steps)
    notes = dict.fromkeys((_note_on_command(suggestion, pod, objects, situation), *of_steps))
    return "; ".join(filter(None, notes))


def _note_on_command(suggestion: Suggestion, pod: Pod, objects: ClusterObjects, situation: Situation) -> str:
    is_new = _is_new(pod, situation)
    maker = maker_in_the_way(suggestion, pod, objects)
    if maker is not None and not is_new:
        return nothing_to_run((maker,))
    if note := _no_command(suggestion, pod, objects, is_new=is_new):
        return note if _is_whole(suggestion) else ""
    if note := only_in_the_file(suggestion, situation.of_file):
        return note
    replaced = {
        " ".join(command.split()[2:4])
        for command in commands_of(suggestion, pod, objects, situation)
        if command.endswith(REPLACE_FORCED)
    }
    if not replaced:
        return ""
    what = " and ".join(sorted(replaced))
    them, they = ("it", "it") if len(replaced) == 1 else ("them", "they")
    note = f"the command deletes {what} and creates {them} again: {they} cannot be changed in place"
    return (
        f"{note}; {_note_on_claims(suggestion, pod, objects)}" if needs_new_claims(suggestion, pod, situation) else note
    )


def _maker_commands(maker: PodMaker, change: ObjectChange, pod: Pod) -> list[str]:
    kind = maker.kind.lower()
    of_resources = [each for each in change.patch if _OF_RESOURCES.fullmatch(each.path)]
    rest = [each for each in change.patch if not _OF_RESOURCES.fullmatch(each.path)]
    commands: list[str] = []
    if of_resources:
        commands.append(_set_resources(maker, of_resources, pod) or _merge_resources(maker, of_resources, pod))
    if rest:
        commands.append(
            kubectl("patch", kind, maker.name, pod, "--type=json", "-p", patch_json(_of_template(rest, pod)))
        )
    return [*commands, _deletion_of(pod)] if maker.kind in _KEEPS_ITS_PODS else commands


def _deletion_of(*pods: Pod) -> str:
    """Of pods of one namespace, as those of a group are."""
    return kubectl("delete", "pod", *(pod.metadata.name for pod in pods), pods[0])


def _set_resources(maker: PodMaker, patch: Iterable[Operation], pod: Pod) -> str:
    """`kubectl set resources`, which reads better, where all that changes is one request of one container."""
    operations = tuple(patch)
    steps = operations[0].path.split("/")[1:] if len(operations) == 1 else []
    if len(steps) != 6 or steps[1] != "containers" or steps[4] != "requests":
        return ""
    container = pod.spec.containers[int(steps[2])].name
    resource = steps[5].replace("~1", "/").replace("~0", "~")
    requests_flag = f"--requests={resource}={operations[0].value}"
    return kubectl("set", "resources", maker.kind.lower(), maker.name, pod, "-c", container, requests_flag)


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
    return kubectl("patch", maker.kind.lower(), maker.name, pod, "-p", merged)


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
