"""The cluster that a question is about: objects of files or of a live cluster, and who schedules.

Command line and library read clusters alike. Unreadable nodes and pods are dropped by `leave_out_unreadable`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kscheduler.assembly import group_apis
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.scenario.absent import NOTHING_ABSENT, Absent
from kscheduler.scenario.known_kinds import known
from kscheduler.scenario.manifests import Manifests, sorted_out
from kscheduler.scenario.membership import unfollowed
from kscheduler.scenario.object_files import Document, names_of, nothing_in, read_objects
from kscheduler.scenario.scenario import ClusterObjects
from kscheduler.scenario.serving import Serving
from kscheduler.scenario.unreadable import notes_of, readable


@dataclass(slots=True)
class ClusterInput:
    """What was read."""

    objects: ClusterObjects
    served: Serving
    """Who would schedule; of a live cluster by its server's version."""
    where: str
    """The source of the objects, for messages."""
    notes: list[str]
    """What could not be read or had to be presumed."""
    groups: list[GroupDefinition] = field(default_factory=list)
    priority_classes: dict[str, Any] = field(default_factory=dict)
    """By name: those of a file, or of a live cluster where new pods ask for them."""
    absent: Absent = NOTHING_ABSENT
    """Of pod groups and topologies."""

    def leave_out_unreadable(self) -> None:
        """Go on without nodes and pods that have an amount which cannot be read, and say so."""
        self.objects, left_out = readable(self.objects)
        self.notes.extend(notes_of(left_out, self.where))

    def note_unfollowed_groups(self) -> None:
        """Say of pods that wait and name a group that it is not followed, where that is so."""
        waiting = (pod for pod in self.objects.pods if not (pod.spec.node_name or pod.is_terminal))
        self.notes.extend(unfollowed(waiting, self.served.config))

    def follow_pods(self) -> None:
        """Serve the schedulers that its pods name, those of waiting pods first, if nobody has said who schedules."""
        pods = sorted(self.objects.pods, key=lambda pod: bool(pod.spec.node_name or pod.is_terminal))
        self.served = self.served.following(pod.spec.scheduler_name for pod in pods)


def input_from_files(given: Sequence[str], served: Serving) -> ClusterInput:
    """The objects of all files that the names stand for. Raises `ScenarioError`."""
    notes: list[str] = []
    documents = read_objects(given, notes)
    if not documents:
        raise nothing_in(given)
    where = names_of(given)
    found = manifests_in(documents, served, notes)
    found.note_others()
    found.note_no_nodes(where)
    found.note_no_devices(where)
    return input_of(found, served, where)


def manifests_in(documents: Iterable[Document], served: Serving, notes: list[str]) -> Manifests:
    """The objects of kinds that are known. `notes`: on what was read; they come first. Raises `ScenarioError`."""
    found = sorted_out(known(documents, notes), apis=group_apis(served.config))
    found.notes[:0] = notes
    return found


def input_of(found: Manifests, served: Serving, where: str) -> ClusterInput:
    """The cluster of these objects, with the schedulers that its pods name."""
    absent = Absent(found.missing_groups)
    cluster = ClusterInput(found.cluster(), served, where, found.notes, found.groups, found.priority_classes, absent)
    cluster.follow_pods()
    return cluster
