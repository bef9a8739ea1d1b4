"""The cluster that a question is about, as the flags say: objects from a file, or those of a live cluster."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kscheduler.assembly import group_apis
from kscheduler.cli.cluster_flags import (
    by_the_servers_version,
    choose_cluster,
    live_client,
    refuse_two_clusters,
    serving_of,
)
from kscheduler.explain.queries.live import (
    read_claim_templates,
    read_cluster,
    read_groups,
    read_priority_classes,
)
from kscheduler.framework.cluster.pod_groups import GroupDefinition
from kscheduler.scenario.known_kinds import known
from kscheduler.scenario.manifests import Manifests, sorted_out
from kscheduler.scenario.membership import unfollowed
from kscheduler.scenario.object_files import names_of, nothing_in, read_objects
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

    def leave_out_unreadable(self) -> None:
        """Go on without nodes and pods that have an amount which cannot be read, and say so."""
        self.objects, left_out = readable(self.objects)
        self.notes.extend(notes_of(left_out, self.where))

    def note_unfollowed_groups(self) -> None:
        """Say of pods that wait and name a group that it is not followed, where that is so."""
        waiting = (pod for pod in self.objects.pods if not (pod.spec.node_name or pod.is_terminal))
        self.notes.extend(unfollowed(waiting, self.served.config))


def cluster_input(
    args: argparse.Namespace,
    *,
    with_groups: bool = False,
    with_templates: bool = False,
    with_priority_classes: bool = False,
    served: Serving | None = None,
) -> ClusterInput:
    """The cluster of `--from`, or the live one. Raises what `refusing` answers.

    `with_templates`: of claims to devices, also if no pod of the cluster has such a claim.
    `with_priority_classes`: of a live cluster, too, whose pods have their priorities.
    `served`: who would schedule, where it has been read; then the cluster has been chosen, too.
    """
    refuse_two_clusters(args)
    if served is None:
        served = serving_of(args)
        if args.source is None:
            choose_cluster(args, served)
    if args.source is None:
        live = _live(args, served, with_groups, with_templates, with_priority_classes)
        return _following(asyncio.run(live))
    found = _cluster_of_file(args.source, served)
    where = names_of(args.source)
    return _following(ClusterInput(found.cluster(), served, where, found.notes, found.groups, found.priority_classes))


def _cluster_of_file(given: Sequence[str], served: Serving) -> Manifests:
    """The objects that kubectl has printed into files. Raises `ScenarioError`."""
    notes: list[str] = []
    documents = read_objects(given, notes)
    if not documents:
        raise nothing_in(given)
    documents = known(documents, notes)
    found = sorted_out(documents, apis=group_apis(served.config))
    found.notes[:0] = notes
    found.note_others()
    found.note_no_nodes(names_of(given))
    found.note_no_devices(names_of(given))
    return found


def _following(cluster: ClusterInput) -> ClusterInput:
    """With the schedulers that its pods name, those of waiting pods first, if nobody has said who schedules."""
    pods = sorted(cluster.objects.pods, key=lambda pod: bool(pod.spec.node_name or pod.is_terminal))
    cluster.served = cluster.served.following(pod.spec.scheduler_name for pod in pods)
    return cluster


async def _live(
    args: argparse.Namespace, served: Serving, with_groups: bool, with_templates: bool, with_priority_classes: bool
) -> ClusterInput:
    notes: list[str] = []
    async with live_client(args) as client:
        served = await by_the_servers_version(client, args, served)
        objects = await read_cluster(client, notes)
        groups = await read_groups(client, served, notes) if with_groups else []
        if with_templates or (with_groups and any(pod.names_claim_templates for pod in objects.pods)):
            objects = await read_claim_templates(client, objects, notes)
        classes = await read_priority_classes(client, notes) if with_priority_classes else {}
    notes += [served.rules] if served.is_other_version and args.output == "json" else []  # else the text ends with it
    return ClusterInput(objects, served, "cluster", notes, groups, classes)
