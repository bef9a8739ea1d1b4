"""`kubectl kscheduler top`: a screen of the running scheduler that draws itself again.

Queue lengths, decisions and outcomes per second from `/metrics`, pending pods by reason from `/pending`, who leads from
the lease's metric of the replica that answers. Plain escapes: a library for one screen of text is not worth its weight.
"""

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from shutil import get_terminal_size
from typing import Final

from kscheduler.answers.pending_in_queue import PendingInQueue, ReasonInQueue
from kscheduler.answers.scarce_resources import ScarceResource, scarcest
from kscheduler.cli.cluster_flags import add_cluster
from kscheduler.cli.kubectl.choosing import add_choice, answer
from kscheduler.cli.kubectl.service import ServiceProxyClient, ServiceQueryError
from kscheduler.cli.refusal import FAILED, refuse
from kscheduler.text import BOLD, RED, Style, age_of, aligned, printable, style_of, without_empty_answer

Labels = tuple[tuple[str, str], ...]

_LEAST_SECONDS: Final = 1.0
_SAMPLE: Final = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_BEGINNING: Final = re.compile(r"^\d+/\d+ nodes are available: ")
_PART: Final = re.compile(r"(?<=: )|(?<=, )")
_EXTENDED, _DEVICES, _CLASSES = "kscheduler_extended_resources", "kscheduler_devices", "kscheduler_class_devices"
_READ: Final = (
    *("scheduler_pending_pods", "scheduler_schedule_attempts_total", "leader_election_master_status"),
    *(_EXTENDED, _DEVICES, _CLASSES),
)
_QUEUES: Final = ("active", "backoff", "unschedulable", "gated")
_DESCRIPTION = """\
Show the running scheduler: queue lengths and ages, decisions a second, pending pods by reason, whether the replica that
answers leads. The screen is redrawn until Ctrl-C."""


@dataclass(frozen=True, slots=True)
class TopReading:
    """What was read at a moment."""

    at: float
    """Monotonic seconds."""
    metrics: Mapping[tuple[str, Labels], float]
    pending: PendingInQueue

    def value(self, name: str, **labels: str) -> float | None:
        """The sum of the samples with these labels; `None` if there are none."""
        wanted = labels.items()
        found = [value for (known, own), value in self.metrics.items() if known == name and wanted <= dict(own).items()]
        return sum(found) if found else None

    def scarce(self) -> Sequence[ScarceResource]:
        """What few nodes have, as the status page orders it: devices by driver only where no class has them."""
        found = []
        for name in self._labels(_EXTENDED, "resource"):
            requested, whole = (self._count(_EXTENDED, resource=name, state=of) for of in ("requested", "allocatable"))
            found.append(ScarceResource(name, requested, whole))
        for name in self._labels(_CLASSES, "device_class"):
            there = self._count(_CLASSES, device_class=name)
            found.append(ScarceResource("", self._count(_CLASSES, device_class=name, state="taken"), there, name))
        for name in self._labels(_DEVICES, "driver") - self._labels(_CLASSES, "driver"):
            taken, free = (self._count(_DEVICES, driver=name, state=of) for of in ("taken", "free"))
            found.append(ScarceResource(name, taken, taken + free))
        return scarcest(each for each in found if each.there)

    def _labels(self, metric: str, label: str) -> set[str]:
        return {dict(labels).get(label, "") for known, labels in self.metrics if known == metric}

    def _count(self, metric: str, **labels: str) -> int:
        return int(self.value(metric, **labels) or 0)


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "top", help="show the running scheduler on a screen", description=_DESCRIPTION, allow_abbrev=False
    )
    shown = parser.add_argument_group("the screen")
    shown.add_argument("--interval", type=float, metavar="SECONDS", default=2.0, help="default %(default)s, at least 1")
    shown.add_argument("--once", action="store_true", help="print once and exit; the default without a terminal")
    add_cluster(parser.add_argument_group("the live cluster"))
    add_choice(parser)
    return parser


def run(args: argparse.Namespace) -> int:
    """Show the screen until Ctrl-C; returns the exit code."""
    if not _LEAST_SECONDS <= args.interval <= 3600:
        return refuse("--interval: a number of seconds from 1 to 3600 was expected")
    return answer(args, _show, _not_here)


def _not_here(_args: argparse.Namespace) -> int:
    refuse("top shows a running scheduler, and none has answered; `kubectl kscheduler pending` works without")
    return FAILED


async def _show(args: argparse.Namespace, proxy: ServiceProxyClient) -> int:
    if args.once or not sys.stdout.isatty():
        height = get_terminal_size()[1] if sys.stdout.isatty() else None
        print("\n".join(screen(await _read(proxy), None, datetime.now(UTC), style_of(sys.stdout), height)))
        return 0
    before: TopReading | None = None
    with _whole_screen(), suppress(asyncio.CancelledError, KeyboardInterrupt):
        while True:
            try:
                now = await _read(proxy)
                shown = list(screen(now, before, datetime.now(UTC), style_of(sys.stdout), get_terminal_size()[1]))
                before = now
            except ServiceQueryError as problem:
                shown = [printable(str(problem)), "", "tried again; Ctrl-C ends this"]
            sys.stdout.write("\x1b[H" + "\x1b[K\n".join(shown) + "\x1b[K\x1b[J")
            sys.stdout.flush()
            await asyncio.sleep(args.interval)
    return 0


@contextmanager
def _whole_screen() -> Iterator[None]:
    """The terminal's other screen, without a cursor; then everything as before."""
    sys.stdout.write("\x1b[?1049h\x1b[?25l\x1b[2J")
    try:
        yield
    finally:
        sys.stdout.write("\x1b[?25h\x1b[?1049l")
        sys.stdout.flush()


async def _read(proxy: ServiceProxyClient) -> TopReading:
    text = (await proxy.get("/metrics", accept="text/plain")).decode(errors="replace")
    return TopReading(time.monotonic(), samples_in(text), await proxy.get_as(PendingInQueue, "/pending"))


def samples_in(text: str) -> dict[tuple[str, Labels], float]:
    """The samples of an exposition that the screen shows."""
    found: dict[tuple[str, Labels], float] = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line) if line.startswith(_READ) else None
        if sample is not None and sample["name"] in _READ:
            with suppress(ValueError):
                found[sample["name"], tuple(_LABEL.findall(sample["labels"] or ""))] = float(sample["value"])
    return found


def screen(now: TopReading, before: TopReading | None, at: datetime, style: Style, height: int | None) -> Iterator[str]:
    """The lines, no more than `height`, each cut at the width. `None`: no terminal, all lines, and whole ones."""
    head = [
        style.paint(f"kscheduler {at:%H:%M:%S} UTC", BOLD) + f", {_leader(now)}",
        "",
        *aligned([("queue", *_QUEUES), ("pods", *(_number(now, queue) for queue in _QUEUES))], {1, 2, 3, 4}),
        "",
        _rates(now, before),
        *(line if height is None else line[: style.width] for line in _scarce(now)),
        "",
    ]
    yield from head
    reasons, total = now.pending.reasons, now.pending.count
    yield style.paint(f"{total} pods pending" if total != 1 else "1 pod pending", BOLD)
    shown = reasons if height is None else reasons[: max(height - len(head) - 2, 1)]
    messages = [printable(without_empty_answer(reason.message)) for reason in shown]
    if height is not None:
        messages = without_common_beginning(messages)
    rows = [(*_row(reason, at), message) for reason, message in zip(shown, messages, strict=True)]
    if rows:
        for line, reason in zip(aligned(rows, {0, 1}), shown, strict=True):
            cut = line if height is None else line[: style.width]
            yield style.paint(cut, RED) if reason.queue == "unschedulable" else cut


def _leader(now: TopReading) -> str:
    leads = now.value("leader_election_master_status")
    if leads is None:
        return "alone (no leader election)"
    return "the leader" if leads else "a replica that stands by: its queue is not the one that counts"


def _number(now: TopReading, queue: str) -> str:
    value = now.value("scheduler_pending_pods", queue=queue)
    return "-" if value is None else f"{value:.0f}"


def _rates(now: TopReading, before: TopReading | None) -> str:
    """Attempts a second by outcome since the reading before; totals on the first screen."""
    parts = []
    for result in ("scheduled", "unschedulable", "error"):
        value = now.value("scheduler_schedule_attempts_total", result=result) or 0.0
        if before is None or now.at <= before.at:
            parts.append(f"{value:.0f} {result}")
        else:
            earlier = before.value("scheduler_schedule_attempts_total", result=result) or 0.0
            parts.append(f"{max(value - earlier, 0.0) / (now.at - before.at):.1f}/s {result}")
    return ("attempts so far: " if before is None else "attempts: ") + ", ".join(parts)


def _scarce(now: TopReading) -> Iterator[str]:
    """`requested: nvidia.com/gpu 96 of 128 (75 %)`; no line where no node has anything but CPU and memory."""
    parts = [
        f"{printable(each.words)} {each.requested} of {each.there} ({100 * each.requested // each.there} %)"
        for each in now.scarce()
    ]
    if parts:
        yield f"requested: {', '.join(parts)}"


def _row(reason: ReasonInQueue, at: datetime) -> tuple[str, ...]:
    age = age_of(reason.since, at) if reason.since else "-"
    plugins = ", ".join(map(printable, reason.plugins)) or reason.queue
    pod = printable(reason.pods[0].key) if reason.pods else ""
    return str(reason.count), age, plugins, pod


def without_common_beginning(messages: Sequence[str]) -> list[str]:
    """Where a row has room for a few words only, those that differ: `0/9 nodes are available: ` is in each of them.

    Only whole parts of a message are left away, which `: ` and `, ` end.
    """
    reported = [_BEGINNING.sub("", message) for message in messages]
    different = [_PART.split(message)[:-1] for message in dict.fromkeys(reported) if message]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*different, strict=False)) if len(different) > 1 else ()
    beginning = "".join(parts[0] for parts in same)
    return [f"... {message.removeprefix(beginning)}" if beginning and message else message for message in reported]
