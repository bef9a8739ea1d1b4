"""Renders scrapes: samples are copied on the event loop and rendered in a thread, one rendering at a time.

A scrape copies all samples at once, which is consistent because nothing else runs meanwhile, and hands the copy to the
thread. A request for the same format before the rendering is done gets the same answer, so a hundred scrapers cost as
much as one.
"""

import asyncio
import gzip
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import Enum

import msgspec
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kscheduler.telemetry.samples import Pace, Sample, Source, families, go_bound, openmetrics_bound

# The text shrinks thirtyfold at any level; higher levels only take longer.
_FAST_COMPRESSION = 1


def accepts(header: str, name: str) -> bool:
    """Whether an Accept or Accept-Encoding header names `name` without refusing it (`q=0`)."""
    for part in header.lower().split(","):
        named, _, parameters = part.partition(";")
        if named.strip() == name:
            weights = [
                value.strip()
                for key, _, value in (parameter.partition("=") for parameter in parameters.split(";"))
                if key.strip() == "q"
            ]
            return not any(weight and not weight.strip("0.") for weight in weights)
    return False


class TextFormat(Enum):
    """The two formats that are served, as the Accept headers that `choose_encoder` expects."""

    PROMETHEUS = "text/plain; version=0.0.4"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0"

    @classmethod
    def accepted_by(cls, accept: str) -> "TextFormat":
        """OpenMetrics if the client asks for it, otherwise the text format that kube-scheduler serves.

        The client's header is not passed to prometheus-client, which raises if a version is not a number.
        """
        return cls.OPENMETRICS if accepts(accept, "application/openmetrics-text") else cls.PROMETHEUS


class Exposed(msgspec.Struct, frozen=True):
    """A rendered exposition."""

    body: bytes
    content_type: str
    gzipped: bool


class Exposition:
    """All sources of a service, rendered on demand. It owns a thread, so it must be closed."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        on_thread: Sequence[Callable[[], Iterable[Metric]]] = (),
    ) -> None:
        """`sources` are called on the loop, `on_thread` (collectors that read the system) in the thread."""
        self._sources = list(sources)
        self._on_thread = tuple(on_thread)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="exposition")
        self._in_progress: dict[tuple[TextFormat, bool], asyncio.Future[Exposed]] = {}
        self._renderings = 0

    def add(self, source: Source) -> None:
        """Add the source of a part that is built later."""
        self._sources.append(source)

    def names(self) -> frozenset[str]:
        """The names of all families, including those without samples. For tests."""
        from_loop = {sample.series.name for source in self._sources for sample in source()}
        from_thread = {_full_name(metric) for source in self._on_thread for metric in source()}
        return frozenset(from_loop | from_thread)

    @property
    def renderings(self) -> int:
        """How many renderings were begun; scrapes that shared a rendering count once."""
        return self._renderings

    async def render(self, text_format: TextFormat = TextFormat.PROMETHEUS, *, gzipped: bool = False) -> Exposed:
        """Render now, or join the rendering in progress, which goes on if this call is cancelled."""
        key = (text_format, gzipped)
        rendering = self._in_progress.get(key)
        if rendering is None:
            rendering = self._in_progress[key] = self._begin(text_format, gzipped)
            rendering.add_done_callback(lambda _: self._in_progress.pop(key))
        return await asyncio.shield(rendering)

    def _begin(self, text_format: TextFormat, gzipped: bool) -> asyncio.Future[Exposed]:
        samples = [sample for source in self._sources for sample in source()]
        self._renderings += 1
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._thread, render_samples, samples, self._on_thread, text_format, gzipped)

    def close(self) -> None:
        """End the thread; a rendering in progress is finished and discarded."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _full_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else str(metric.name)


class _Families(Collector):
    """A copy of the samples, in the form that prometheus-client's encoders read."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def render_samples(
    samples: Sequence[Sample],
    on_thread: Sequence[Callable[[], Iterable[Metric]]],
    text_format: TextFormat,
    gzipped: bool,
) -> Exposed:
    """Render copies here and now; for a thread."""
    encode, content_type = choose_encoder(text_format.value)
    bound_format = openmetrics_bound if text_format is TextFormat.OPENMETRICS else go_bound
    metrics = [*families(samples, bound_format, Pace()), *(metric for read in on_thread for metric in read())]
    metrics.sort(key=lambda metric: metric.name)
    body = encode(_Families(metrics))
    return Exposed(gzip.compress(body, _FAST_COMPRESSION) if gzipped else body, content_type, gzipped)
