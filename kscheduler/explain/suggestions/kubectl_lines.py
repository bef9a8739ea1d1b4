"""Lines for a shell with kubectl, quoted."""

import shlex
from collections.abc import Iterable
from itertools import chain
from typing import Final

import msgspec

from kscheduler.api.core import Pod
from kscheduler.explain.suggestions.object_changes import ObjectChange, Operation

# Deletes the object and creates it again.
REPLACE_FORCED: Final = "kubectl replace --force -f -"
_SINGULAR: Final = {"pods": "pod", "resourceclaims": "resourceclaim", "devicetaintrules": "devicetaintrule"}


def kubectl(*words: str | Pod) -> str:
    """A line with these words; a pod among them stands for its namespace."""
    given = ((word,) if isinstance(word, str) else ("-n", word.metadata.namespace) for word in words)
    return shlex.join(("kubectl", *chain.from_iterable(given)))


def patch_json(patch: Iterable[Operation]) -> str:
    """The patch as `--type=json` wants it."""
    return msgspec.json.encode([operation.tree for operation in patch]).decode()


def patched_locally(patch: str, output: str = "yaml") -> str:
    """A line that changes an object on its way through a pipe."""
    return kubectl("patch", "--local", "-f", "-", "--type=json", "-p", patch, "-o", output)


def recreated(kind: str, change: ObjectChange) -> str:
    """What cannot be changed is made again. A claim loses nothing by that while it has neither volume nor devices."""
    of_namespace = ("-n", change.namespace) if change.namespace else ()
    get = kubectl("get", kind, change.name, *of_namespace, "-o", "yaml")
    return f"{get} | {patched_locally(patch_json(change.patch))} | {REPLACE_FORCED}"


def deletion(changes: Iterable[ObjectChange]) -> str:
    """The line that deletes the objects, by kind and namespace."""
    names: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        names.setdefault((_SINGULAR[change.resource], change.namespace), []).append(change.name)
    return " && ".join(
        kubectl("delete", kind, *(("-n", space) if space else ()), *found)
        for (kind, space), found in sorted(names.items())
    )
