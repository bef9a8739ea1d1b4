"""The demo's progress: bars at a terminal if rich is installed, otherwise a plain line each second."""

import importlib.util
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

if TYPE_CHECKING:  # rich is optional
    from rich.progress import Progress

_PLAIN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of the demo."""

    seconds: float
    """Since the first pod was sent."""
    pods: int
    created: int
    bound: int
    running: int
    """Running or ended pods, which a kubelet has accepted."""


class Display(Protocol):
    """Shows snapshots; called about ten times a second."""

    def show(self, snapshot: Snapshot, *, last: bool = False) -> None:
        """Show the newest state; `last` if it is the final one."""


class PlainDisplay:
    """A line per second, for logs and pipes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shown = Snapshot(0.0, 0, 0, 0, 0)

    def show(self, snapshot: Snapshot, *, last: bool = False) -> None:
        """Write a line once a second, and for the last state."""
        since = snapshot.seconds - self._shown.seconds
        if since < _PLAIN_SECONDS and not last:
            return
        rate = (snapshot.bound - self._shown.bound) / since if since > 0 else 0.0
        self._shown = snapshot
        counts = f"created {snapshot.created:6,}   bound {snapshot.bound:6,}   running {snapshot.running:6,}"
        self._out.write(f"  {snapshot.seconds:5.1f} s   {counts}   {rate:6,.0f} pods/s\n")
        self._out.flush()


def display(out: TextIO) -> AbstractContextManager[Display]:
    """The best display for this stream, as a context manager."""
    if out.isatty():
        if importlib.util.find_spec("rich") is not None:
            return _bars(out)
        out.write("  (for a live display, in a checkout: pip install '.[simulation]')\n")
    return nullcontext(PlainDisplay(out))


@contextmanager
def _bars(out: TextIO) -> Iterator[Display]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("  {task.description:8}"),
        BarColumn(48),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(file=out), refresh_per_second=10) as progress:
        yield _Bars(progress)


class _Bars:
    """A bar for each stage of a pod."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress
        self._tasks = {name: progress.add_task(name, total=None, note="") for name in ("created", "bound", "running")}

    def show(self, snapshot: Snapshot, *, last: bool = False) -> None:
        """Move the bars."""
        del last
        rate = snapshot.bound / snapshot.seconds if snapshot.seconds > 0 else 0.0
        for name, task in self._tasks.items():
            note = f"{rate:,.0f} pods/s" if name == "bound" else ""
            self._progress.update(task, completed=getattr(snapshot, name), total=snapshot.pods, note=note)
