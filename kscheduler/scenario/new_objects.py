"""Manifests of pods that do not exist yet, and of what comes with them: read, named, and asked about at the API server.

Nothing here knows a scheduler's rules: a command that the running service answers reads its files, and sends them.

A new pod is sent to the API server as a dry run, with the rights of whoever asks, to get the cluster's own defaults
and admission (limit ranges, priority classes, webhooks). Where that cannot be done there is a note.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kscheduler.api.codec import UndecodableError
from kscheduler.api.core import Pod
from kscheduler.api.groups import SCHEDULER_PLUGINS_LABEL, VOLCANO_ANNOTATION
from kscheduler.api.kinds import PODS
from kscheduler.client.errors import APIError
from kscheduler.client.rest import APIClient
from kscheduler.scenario.errors import ScenarioError
from kscheduler.scenario.fields import misspelt
from kscheduler.scenario.known_kinds import known
from kscheduler.scenario.new_pods import WORKLOADS, NewPod
from kscheduler.scenario.object_files import Document, names_of, read_objects
from kscheduler.text import printable

Tree = dict[str, Any]

# A person waits for the answer: give up after three tries.
_RETRIES: Final = 2
# The pod itself cannot be created, which is the answer.
_REFUSED_AS_WRITTEN: Final = (400, 422)
# Metadata that only a server writes: of a pod that was copied from a cluster.
_OF_THE_SERVER: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")
_GROUPS: Final = ("PodGroup", "CompositePodGroup")
_UNKNOWN_FIELD: Final = re.compile(r'unknown field "([^"]+)"')


def read_new_objects(given: Sequence[str]) -> tuple[list[Document], list[str]]:
    """The objects of files with new pods, of kinds that are known, and what was not read. Raises `ScenarioError`."""
    notes: list[str] = []
    every = read_objects(given, notes, instead=": use --from")
    documents = known(every, notes, are_new=True)
    if not any(makes_pods(document) or is_pod_group(document) for document in documents):
        kinds = sorted({str(document.tree.get("kind")) for document in every})
        only = f"{names_of(given)}: no pod and nothing that makes pods, only {', '.join(kinds) or 'an empty file'}"
        raise ScenarioError("\n".join([only, *notes]))
    return documents, notes


def makes_pods(document: Document) -> bool:
    """Whether it is a pod, or its controller makes pods."""
    kind = document.tree.get("kind")
    return kind == PODS.name or kind in WORKLOADS


def is_pod_group(document: Document) -> bool:
    """Whether it is a group of pods, or of groups, of an API that is known (`known` has left out the others)."""
    return document.tree.get("kind") in _GROUPS


def pod_groups_named_in(pod: Tree) -> list[str]:
    """The names of the groups that a pod names: of each API one at most, whether it is followed or not."""
    metadata, spec = fields_of(pod, "metadata"), fields_of(pod, "spec")
    named = (
        fields_of(spec, "schedulingGroup").get("podGroupName"),
        fields_of(metadata, "labels").get(SCHEDULER_PLUGINS_LABEL),
        fields_of(metadata, "annotations").get(VOLCANO_ANNOTATION),
    )
    return list(dict.fromkeys(str(name) for name in named if name))


def fields_of(tree: Tree, name: str) -> Tree:
    """The object in this field, empty if there is none: nobody has validated the tree."""
    found = tree.get(name)
    return found if isinstance(found, dict) else {}


def called(document: Document) -> str:
    """Kind and name, as far as they are there."""
    metadata = document.tree.get("metadata")
    name = (metadata.get("name") or metadata.get("generateName")) if isinstance(metadata, dict) else None
    return printable(" ".join(str(word) for word in (document.tree.get("kind"), name) if word))


def place_of(document: Document) -> str:
    """`FILE: document 2 (Deployment web)`; nothing is known of the object yet."""
    return f"{document.where} ({called(document)})"


async def admitted_pod(client: APIClient, new: NewPod) -> Tree | str | None:
    """The pod as the API server would store it, or why it would not create it.

    `None` where that cannot be asked; `new.notes` say so, and which fields the API server does not know. Raises
    `ClientError`, but for an API server that refuses to be asked.
    """
    try:
        return await _dry_run(client, new)
    except APIError as error:
        if error.code in _REFUSED_AS_WRITTEN:
            return error.message
        new.notes.append(f"the dry run at the API server failed ({error}): the defaults known here are presumed")
        return None


async def _dry_run(client: APIClient, new: NewPod) -> Tree:
    """The pod under its name. Owners, which may not exist, are not sent."""
    metadata = {name: value for name, value in new.tree["metadata"].items() if name not in _OF_THE_SERVER}
    owners = metadata.pop("ownerReferences", None)
    try:
        answer = await _posted(client, new, metadata)
    except APIError as error:
        if not error.is_already_exists:
            raise
        nameless = {key: value for key, value in metadata.items() if key != "name"}
        answer = await _posted(client, new, {**nameless, "generateName": "explained-"})
    tree = _pod_in(answer)
    tree["metadata"]["name"] = metadata["name"]
    if owners:
        tree["metadata"]["ownerReferences"] = owners
    return tree


async def _posted(client: APIClient, new: NewPod, metadata: Tree) -> bytes:
    """Unknown fields have no effect: they are noted, and the pod is asked about without them."""
    path = f"{PODS.object_path('', metadata['namespace']).rstrip('/')}?dryRun=All&fieldValidation="
    body = msgspec.json.encode({**new.tree, "apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    try:
        return await client.post(f"{path}Strict", body, retries=_RETRIES)
    except APIError as error:
        unknown = _UNKNOWN_FIELD.findall(error.message) if error.code in _REFUSED_AS_WRITTEN else []
        if not unknown:
            raise
    reported = {problem.partition(" ")[0] for problem in misspelt(new.tree, Pod)}  # with what is meant, of the manifest
    new.notes.extend(f"{new.where}: {field} is not a field" for field in unknown if field not in reported)
    return await client.post(f"{path}Ignore", body, retries=_RETRIES)


def _pod_in(answer: bytes) -> Tree:
    """Raises `UndecodableError`: `{}` is no pod."""
    try:
        tree = msgspec.json.decode(answer)
        if tree["kind"] == PODS.name and tree["metadata"]["name"] and isinstance(tree["spec"], dict):
            found: Tree = tree
            return found
    except (msgspec.DecodeError, KeyError, TypeError):
        pass
    raise UndecodableError("POST of a pod as a dry run: the answer is no pod of an API server")
