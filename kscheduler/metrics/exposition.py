"""Renders what Prometheus scrapes: copied on the event loop, rendered in a thread, one rendering at a time.

A scrape takes its copy at once, consistent because nothing else runs meanwhile, and hands it to the one thread. Whoever
asks for the same format before that is done gets the same answer, so a hundred scrapers cost what one costs.
"""

import asyncio
import gzip
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from kscheduler.metrics.pacing import Pace
from kscheduler.metrics.samples import Sample, Source, families, go_bound, openmetrics_bound

_FAST_COMPRESSION = 1
"""Exposition shrinks thirtyfold at any level; the higher ones only take longer."""


def accepts(header: str, name: str) -> bool:
    """Whether an Accept or Accept-Encoding header names it, and not to refuse it (`q=0`)."""
    for part in header.lower().split(","):
        named, _, parameters = part.partition(";")
        if named.strip() == name:
            weights = [
                value.strip()
                for key, _, value in (one.partition("=") for one in parameters.split(";"))
                if key.strip() == "q"
            ]
            return not any(weight and not weight.strip("0.") for weight in weights)
    return False


class TextFormat(Enum):
    """The two formats that are served, each as the Accept header that `choose_encoder` knows it by."""

    PROMETHEUS = "text/plain; version=0.0.4"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0"

    @classmethod
    def accepted_by(cls, accept: str) -> "TextFormat":
        """OpenMetrics for who names it, else the text format, which kube-scheduler serves and everyone reads.

        The header itself does not reach prometheus-client: a version that is no number would be an exception there.
        """
        return cls.OPENMETRICS if accepts(accept, "application/openmetrics-text") else cls.PROMETHEUS


@dataclass(frozen=True, slots=True)
class Exposed:
    """A rendered exposition."""

    body: bytes
    content_type: str
    gzipped: bool


class Exposition:
    """All sources of one service, rendered on demand. Close it at the end: it owns a thread."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        on_thread: Sequence[Callable[[], Iterable[Metric]]] = (),
    ) -> None:
        """`sources` are called on the loop, `on_thread` (what reads the system) in the thread."""
        self._sources = list(sources)
        self._on_thread = tuple(on_thread)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="exposition")
        self._under_way: dict[tuple[TextFormat, bool], asyncio.Future[Exposed]] = {}
        self._renderings = 0

    def add(self, source: Source) -> None:
        """One more source, of a part that is built later."""
        self._sources.append(source)

    def names(self) -> frozenset[str]:
        """The names of all families, of those too that have no samples yet. For who has to know them all."""
        own = {sample.series.name for source in self._sources for sample in source()}
        read = {_full_name(metric) for source in self._on_thread for metric in source()}
        return frozenset(own | read)

    @property
    def renderings(self) -> int:
        """How many were begun; scrapes that shared one count once."""
        return self._renderings

    async def render(self, text_format: TextFormat = TextFormat.PROMETHEUS, *, gzipped: bool = False) -> Exposed:
        """The exposition now, or the one under way. Who is cancelled while waiting leaves it to the others."""
        key = (text_format, gzipped)
        rendering = self._under_way.get(key)
        if rendering is None:
            rendering = self._under_way[key] = self._begin(text_format, gzipped)
            rendering.add_done_callback(lambda _: self._under_way.pop(key))
        return await asyncio.shield(rendering)

    def _begin(self, text_format: TextFormat, gzipped: bool) -> asyncio.Future[Exposed]:
        samples = [sample for source in self._sources for sample in source()]
        self._renderings += 1
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._thread, render_samples, samples, self._on_thread, text_format, gzipped)

    def close(self) -> None:
        """End the thread; a rendering under way is finished, and nobody gets it."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _full_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else str(metric.name)


class _Families(Collector):
    """A copy, in the shape that prometheus-client's encoders read."""

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
