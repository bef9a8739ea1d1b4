"""Plugins' own data, as `scheduling.beside` fetches them."""

from collections.abc import Callable, Mapping

from kscheduler.counts.series import LabelValues
from kscheduler.metrics.samples import Numbers, Source, gauge
from kscheduler.scheduling.beside.refreshed_plugins import DATA_AGE, REFRESHES

Values = Callable[[], Mapping[LabelValues, float]]


def plugin_data_source(results: Values, ages: Values) -> Source:
    """Refreshes by result, and the age of the data; no series while no plugin has data of its own."""
    return lambda: [Numbers("counter", REFRESHES, results()), gauge(DATA_AGE, ages())]
