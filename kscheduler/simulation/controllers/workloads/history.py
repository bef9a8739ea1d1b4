"""ControllerRevisions: the numbered templates of a StatefulSet or DaemonSet, which `kubectl rollout` reads.

A template that is used again gives its old revision the newest number. The data is a strategic merge patch that
restores the template, which `kubectl rollout undo` sends unchanged.
"""

from collections.abc import Collection
from dataclasses import dataclass

from kscheduler.simulation.controllers.engine.plan import Create, Delete, Plan, Update
from kscheduler.simulation.controllers.engine.view import View
from kscheduler.simulation.controllers.reading.owners import reference_to
from kscheduler.simulation.controllers.reading.templates import hash_of
from kscheduler.simulation.kinds.api_errors import Object
from kscheduler.simulation.kinds.resources import CONTROLLER_REVISIONS

HASH_LABEL = "controller.kubernetes.io/hash"
_DIRECTIVE = "$patch"


@dataclass(frozen=True, slots=True)
class History:
    """The revisions, oldest first, and the revision of the current template, which is the newest."""

    revisions: list[Object]
    update: Object
    collisions: int


def template_of(revision: Object) -> Object:
    """The pod template that a revision restores."""
    template = revision["data"]["spec"]["template"]
    return {name: value for name, value in template.items() if name != _DIRECTIVE}


def name_of(revision: Object) -> str:
    """The revision's name, which pods of a StatefulSet carry as a label."""
    return str(revision["metadata"]["name"])


def brought_up_to_date(plan: Plan, view: View, owner: Object) -> History:
    """The history including the owner's current template; adds the necessary writes to the plan."""
    known = sorted(
        view.controlled(CONTROLLER_REVISIONS, owner), key=lambda revision: (revision["revision"], name_of(revision))
    )
    collisions = int((owner.get("status") or {}).get("collisionCount") or 0)
    data = {"spec": {"template": {**owner["spec"]["template"], _DIRECTIVE: "replace"}}}
    newest = known[-1]["revision"] if known else 0
    equal = next((revision for revision in reversed(known) if revision["data"] == data), None)
    if equal is None:
        made, collisions = _made(view, owner, data, newest + 1, collisions)
        plan.add(Create(CONTROLLER_REVISIONS, made))
        return History([*known, made], made, collisions)
    if equal["revision"] == newest:
        return History(known, equal, collisions)
    renewed = {**equal, "revision": newest + 1}
    plan.add(Update(CONTROLLER_REVISIONS, renewed))
    return History([*(revision for revision in known if revision is not equal), renewed], renewed, collisions)


def cut(plan: Plan, owner: Object, history: History, in_use: Collection[str]) -> None:
    """Delete the oldest unused revisions beyond `revisionHistoryLimit`."""
    idle = [
        revision for revision in history.revisions if name_of(revision) not in in_use and revision is not history.update
    ]
    surplus = len(idle) - int(owner["spec"].get("revisionHistoryLimit", 10))
    plan.add(*(Delete(CONTROLLER_REVISIONS, revision) for revision in idle[: max(surplus, 0)]))


def _made(view: View, owner: Object, data: Object, revision: int, collisions: int) -> tuple[Object, int]:
    metadata = owner["metadata"]
    while True:
        digest = hash_of(data, collisions)
        name = f"{metadata['name']}-{digest}"
        if view.get(CONTROLLER_REVISIONS, (metadata["namespace"], name)) is None:
            break
        collisions += 1
    labels = (owner["spec"]["template"].get("metadata") or {}).get("labels") or {}
    made: Object = {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": {**labels, HASH_LABEL: digest},
        "ownerReferences": [reference_to(owner)],
    }
    if metadata.get("annotations"):
        made["annotations"] = dict(metadata["annotations"])
    body = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": made}
    return {**body, "data": data, "revision": revision}, collisions
