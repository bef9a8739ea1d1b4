"""The service's Prometheus metrics, under kube-scheduler's names.

The problem: dashboards and alerts know kube-scheduler's series by name, label and bucket; rendering ten thousand lines
takes longer than a thousand decisions, and must not stop the event loop. The idea: each part of the service is a
`Source`, a function that copies its numbers on the loop in microseconds; `Exposition` folds the copies into
prometheus-client's families and renders them in a thread, one rendering at a time, shared by the scrapes that wait.

For each exposed family a test shows something that changes it (`tests/metrics/test_every_series_moves.py`).

Limits: the thread still needs Python's interpreter lock, so a rendering slows the loop a little. `/metrics/resources`
is not built.
"""

from kscheduler.metrics.api_client import (
    EventCounts,
    InformerCounts,
    event_source,
    informer_source,
    reachability_source,
    rest_client_source,
)
from kscheduler.metrics.config_reload import ReloadResult, ReloadStatistics, config_reload_source
from kscheduler.metrics.exposition import Exposed, Exposition, TextFormat, accepts
from kscheduler.metrics.flight_recorder import recorder_source
from kscheduler.metrics.leader_election import election_source
from kscheduler.metrics.loop_lag import LoopLag
from kscheduler.metrics.plugin_data import plugin_data_source
from kscheduler.metrics.process import build_info_source, feature_source, process_families, program_samples
from kscheduler.metrics.samples import Distributions, Numbers, Source
from kscheduler.metrics.scheduler import Gauges, scheduler_source
from kscheduler.metrics.status_patches import status_source
from kscheduler.metrics.truth import truth_source
from kscheduler.metrics.work_queues import work_queue_source

__all__ = [
    "Distributions",
    "EventCounts",
    "Exposed",
    "Exposition",
    "Gauges",
    "InformerCounts",
    "LoopLag",
    "Numbers",
    "ReloadResult",
    "ReloadStatistics",
    "Source",
    "TextFormat",
    "accepts",
    "build_info_source",
    "config_reload_source",
    "election_source",
    "event_source",
    "feature_source",
    "informer_source",
    "plugin_data_source",
    "process_families",
    "program_samples",
    "reachability_source",
    "recorder_source",
    "rest_client_source",
    "scheduler_source",
    "status_source",
    "truth_source",
    "work_queue_source",
]
