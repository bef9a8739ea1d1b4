"""The cluster that a question is about, as the flags say: objects from a file, or those of a live cluster."""

import argparse
import asyncio

from kscheduler.cli.cluster_flags import (
    choose_cluster,
    live_client,
    refuse_two_clusters,
    served_as_the_service,
    serving_of,
)
from kscheduler.explain.queries.live import read_input
from kscheduler.scenario.cluster_input import ClusterInput, input_from_files
from kscheduler.scenario.serving import Serving


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
        return asyncio.run(_live(args, served, with_groups, with_templates, with_priority_classes))
    return input_from_files(args.source, served)


async def _live(
    args: argparse.Namespace, served: Serving, with_groups: bool, with_templates: bool, with_priority_classes: bool
) -> ClusterInput:
    async with live_client(args) as client:
        served = await served_as_the_service(client, args, served)
        found = await read_input(client, served, with_groups, with_templates, with_priority_classes)
    if served.is_other_version and args.output == "json":  # else the text ends with it
        found.notes.append(served.rules)
    return found
