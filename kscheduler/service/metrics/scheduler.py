"""The scheduler's own series: the counts of `Observations`, and gauges that are read from their owners."""

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kscheduler.scheduling.background.refreshed_plugins import DATA_AGE, REFRESHES
from kscheduler.scheduling.observations import Observations
from kscheduler.telemetry.samples import (
    Numbers,
    Sample,
    Source,
    counter,
    gauge,
    gauge_by,
    histograms,
)
from kscheduler.telemetry.series import LabelValues, MetricSeries

PENDING_PODS = MetricSeries(
    "scheduler_pending_pods",
    "Pods without a node: active, backoff (both backoff queues), unschedulable (without the gated), gated; of pod "
    "groups (from Kubernetes 1.37 on) also incomplete and pending.",
    ("queue",),
)
QUEUED_ENTITIES = MetricSeries(
    "scheduler_queued_entities",
    "What waits in the queue, by kind (from Kubernetes 1.37 on): pods, and groups of pods that are scheduled together.",
    ("queue", "type"),
)
QUEUED_ENTITIES_BY_ENTITY = replace(QUEUED_ENTITIES, labels=("queue", "entity"))
CACHE_SIZE = MetricSeries(
    "scheduler_cache_size", "Objects in the cache; assumed_pods are those whose binding is not confirmed.", ("type",)
)
UNSCHEDULABLE_PODS = MetricSeries(
    "scheduler_unschedulable_pods", "Waiting pods that a plugin rejected.", ("plugin", "profile")
)
INFLIGHT_EVENTS = MetricSeries(
    "scheduler_inflight_events", "Events kept for pods that are being decided or bound.", ("event",)
)
GOROUTINES = MetricSeries(
    "scheduler_goroutines", "Concurrent pieces of work (asyncio tasks here), such as binding.", ("operation",)
)
PENDING_API_CALLS = MetricSeries(
    "scheduler_pending_async_api_calls",
    "Requests that no decision waits for and that are not sent yet.",
    ("call_type",),
)


QUARANTINED_PLUGINS = MetricSeries(
    "kscheduler_plugin_quarantined",
    "By plugin that is not in-tree: 1 while it is quarantined (its circuit is open or half-open), otherwise 0.",
    ("plugin", "profile", "on_failure"),
)


EXTENDER_PODS = MetricSeries(
    "kscheduler_extender_pods",
    "Pods that concern HTTP extenders: asked about now, or waiting for their turn. `extender`: all that they need.",
    ("extender", "state"),
)
PODS_AT_PERMIT = MetricSeries(
    "kscheduler_pods_at_permit",
    "Pods that have a node and wait until this Permit plugin lets them through.",
    ("plugin",),
)
GATED_PODS = MetricSeries(
    "kscheduler_gated_pods",
    "Single pods that this plugin keeps out of the queue. DynamicResources: a claim, or its template, is missing.",
    ("plugin",),
)
GROUP_MEMBERS = MetricSeries(
    "kscheduler_pod_group_members",
    "Pods that wait together with their pod group, of whichever API, by queue.",
    ("queue",),
)
DEVICE_POOLS = MetricSeries(
    "kscheduler_device_pools",
    "Pools of devices: complete, or incomplete (not all of its ResourceSlices are published).",
    ("driver", "state"),
)
DEVICES = MetricSeries(
    "kscheduler_devices",
    "Devices in the newest slices of their pools: taken (claims have them, or shares of them), or free.",
    ("driver", "state"),
)
EXTENDED_RESOURCES = MetricSeries(
    "kscheduler_extended_resources",
    "Extended resources of all nodes: allocatable, and requested by the pods on them.",
    ("resource", "state"),
)
OVERCOMMITTED_NODES = MetricSeries(
    "kscheduler_overfilled_nodes",
    "Overcommitted nodes: their pods request more of a resource than the node has, by cause.",
    ("resource", "cause"),
)


def _no_values() -> Mapping[str, float]:
    return {}


def _no_triples() -> Mapping[tuple[str, str, str], float]:
    return {}


def _no_pairs() -> Mapping[tuple[str, str], float]:
    return {}


class Gauges(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that return current values, called on the loop at each scrape; each must be linear in its answer.

    A field without a function has no series.
    """

    pending_pods: Callable[[], Mapping[str, float]] = _no_values
    """By queue: `active`, `backoff`, `unschedulable`, `gated`."""
    queued_entities: Callable[[], Mapping[tuple[str, str], float]] = _no_pairs
    """By (queue, kind of entity)."""
    cache_size: Callable[[], Mapping[str, float]] = _no_values
    """By type: `nodes`, `pods`, `assumed_pods`."""
    unschedulable_pods: Callable[[], Mapping[tuple[str, str], float]] = _no_pairs
    """By (plugin, profile)."""
    inflight_events: Callable[[], Mapping[str, float]] = _no_values
    """By event label, and `PodPopped` for the pods themselves."""
    goroutines: Callable[[], Mapping[str, float]] = _no_values
    """By operation, such as `binding`."""
    pending_api_calls: Callable[[], Mapping[str, float]] = _no_values
    """By type: `pod_status_patch`. Bindings are sent at once."""
    extender_pods: Callable[[], Mapping[tuple[str, str], float]] = _no_pairs
    """By (names of extenders, state): `asked`, `waiting`."""
    pods_at_permit: Callable[[], Mapping[str, float]] = _no_values
    """By plugin that has not let them through."""
    gated_pods: Callable[[], Mapping[str, float]] = _no_values
    """By plugin; `DynamicResources` always."""
    group_members: Callable[[], Mapping[str, float]] = _no_values
    """By queue; empty where groups are not followed."""
    device_pools: Callable[[], Mapping[tuple[str, str], float]] = _no_pairs
    """By (driver, state): `complete`, `incomplete`."""
    devices: Callable[[], Mapping[tuple[str, str], float]] = _no_pairs
    """By (driver, state): `taken`, `free`."""
    extended_resources: Callable[[], Mapping[tuple[str, str], float]] = _no_pairs
    """By (resource, state): `allocatable`, `requested`."""
    quarantined_plugins: Callable[[], Mapping[tuple[str, str, str], float]] = _no_triples
    """By (plugin, profile, policy)."""
    overcommitted_nodes: Callable[[], Mapping[tuple[str, str], float]] = _no_pairs
    """By (resource, cause)."""


def scheduler_source(observations: Observations, gauges: Gauges) -> Source:
    """All `scheduler_*` series, and `kscheduler_*` ones that `Observations` counts."""
    parked: dict[LabelValues, float] = {}
    gated: dict[str, float] = {}

    def copy() -> Iterable[Sample]:
        # Plugins that no longer reject any pods stay at zero, so that lines in graphs fall instead of ending.
        parked.update(dict.fromkeys(parked, 0.0))
        parked.update(((plugin, profile), pods) for (plugin, profile), pods in gauges.unschedulable_pods().items())
        gated.update(dict.fromkeys(gated, 0.0))
        gated.update(gauges.gated_pods())
        return [
            *(counter(metric) for metric in observations.counters),
            *(histograms(metric) for metric in observations.histograms),
            gauge_by(PENDING_PODS, gauges.pending_pods()),
            gauge(
                QUEUED_ENTITIES_BY_ENTITY if observations.labels_entities else QUEUED_ENTITIES,
                {tuple(labels): waiting for labels, waiting in gauges.queued_entities().items()},
            ),
            gauge_by(CACHE_SIZE, gauges.cache_size()),
            gauge(UNSCHEDULABLE_PODS, parked),
            gauge_by(INFLIGHT_EVENTS, gauges.inflight_events()),
            gauge_by(GOROUTINES, gauges.goroutines()),
            gauge(EXTENDER_PODS, {tuple(labels): pods for labels, pods in gauges.extender_pods().items()}),
            gauge_by(PODS_AT_PERMIT, gauges.pods_at_permit()),
            gauge_by(GATED_PODS, gated),
            gauge_by(GROUP_MEMBERS, gauges.group_members()),
            gauge(DEVICE_POOLS, {tuple(labels): pools for labels, pools in gauges.device_pools().items()}),
            gauge(DEVICES, {tuple(labels): count for labels, count in gauges.devices().items()}),
            gauge(EXTENDED_RESOURCES, {tuple(labels): sums for labels, sums in gauges.extended_resources().items()}),
            gauge_by(PENDING_API_CALLS, gauges.pending_api_calls()),
            gauge(
                OVERCOMMITTED_NODES, {tuple(labels): nodes for labels, nodes in gauges.overcommitted_nodes().items()}
            ),
            gauge(
                QUARANTINED_PLUGINS, {tuple(labels): is_on for labels, is_on in gauges.quarantined_plugins().items()}
            ),
        ]

    return copy


# Plugins' own data, as `scheduling.background` fetches them.

Values = Callable[[], Mapping[LabelValues, float]]


def plugin_data_source(results: Values, ages: Values) -> Source:
    """Refreshes by result, and the age of the data; no series while no plugin has data of its own."""
    return lambda: [Numbers("counter", REFRESHES, results()), gauge(DATA_AGE, ages())]
