"""Health as named checks, with the texts of kube-apiserver's and kube-scheduler's probes.

A check is a function that returns `None`, or why it fails. `/livez` fails only for problems that a restart would cure,
so never because the API server is unreachable; `/readyz` fails before the informers have synced (`sched-handler-sync`)
and once the process is ending (`shutdown`). A blocked event loop answers no probe, which the kubelet's timeout notices;
the checks here find what can be dead while the loop is alive: see `LoopLag.problem` and `ProgressCheck`.

Reasons are withheld without `?verbose`, as upstream, and shown with it, unlike upstream: an operator of a scheduler
that is not ready wants to know why, and the texts name only kinds and the API server. Notes name objects, and are
for clients that `access` admits.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

import msgspec

from kscheduler.telemetry.logs.clean import short_line

# `None` if the check passes, otherwise the reason in one line.
Check = Callable[[], str | None]

_MAX_NOTES = 100
_LONGEST_LINE = 500


def ping() -> str | None:
    """Always passes; an answer shows that the event loop is running."""
    return None


def _no_notes() -> Iterable[str]:
    return ()


class Health(msgspec.Struct, frozen=True):
    """The checks of a path, in order; `ping` is added as the first."""

    name: str
    """`livez`, `readyz` or `healthz`: the path, and part of the text."""
    checks: Mapping[str, Check]
    notes: Callable[[], Iterable[str]] = msgspec.field(default=_no_notes)
    """Further lines of verbose output: who leads, and what is wrong for a time without making the check fail."""

    def all_checks(self) -> dict[str, Check]:
        """The checks with `ping` first."""
        return {"ping": ping, **self.checks}

    def report(
        self, *, excluded: AbstractSet[str] = frozenset(), verbose: bool = False, shows_notes: bool = True
    ) -> tuple[bool, str]:
        """Whether all checks pass, and the text of the answer. `shows_notes`: the client may see `notes`."""
        lines, failed = [], False
        checks = self.all_checks()
        for name, check in checks.items():
            reason = None if name in excluded else check()
            failed = failed or reason is not None
            lines.append(_line(name, reason, excluded=name in excluded, verbose=verbose))
        unknown = sorted(excluded - checks.keys())
        if unknown:
            quoted = ",".join(f'"{short_line(name, _LONGEST_LINE)}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {quoted}")
        if verbose:
            lines.extend(self._note_lines() if shows_notes else self._withheld())
        if not failed and not verbose:
            return True, "ok"
        lines.append(f"{self.name} check {'failed' if failed else 'passed'}")
        return not failed, "\n".join(lines) + "\n"

    def report_one(self, name: str) -> tuple[bool, str] | None:
        """Whether a check passes, and the answer with the reason; `None` if there is no such check."""
        check = self.all_checks().get(name)
        if check is None:
            return None
        reason = check()
        return (
            (True, "ok") if reason is None else (False, f"internal server error: {short_line(reason, _LONGEST_LINE)}\n")
        )

    def _withheld(self) -> Iterable[str]:
        count = sum(1 for _ in self.notes())
        text = "1 note" if count == 1 else f"{count} notes"
        return (
            [f"[i]{text} withheld: visible to clients that may get /configz, with a login or the permit token"]
            if count
            else []
        )

    def _note_lines(self) -> Iterable[str]:
        lines = list(self.notes())
        yield from (f"[i]{short_line(line, _LONGEST_LINE)}" for line in lines[:_MAX_NOTES])
        if len(lines) > _MAX_NOTES:
            yield f"[i]... and {len(lines) - _MAX_NOTES} more"


def _line(name: str, reason: str | None, *, excluded: bool, verbose: bool) -> str:
    if excluded:
        return f"[+]{name} excluded: ok"
    if reason is None:
        return f"[+]{name} ok"
    return f"[-]{name} failed: {short_line(reason, _LONGEST_LINE) if verbose else 'reason withheld'}"


class ProgressCheck:
    """Fails if there is work and none of it gets done for a long time: a worker hangs while the loop is alive.

    It is evaluated only when probed, so the limit is as exact as probes are frequent. `has_work` must return False
    while the delay is caused elsewhere (every worker awaits the API server), or an outage would lead to a restart.
    """

    def __init__(
        self,
        *,
        done: Callable[[], int],
        has_work: Callable[[], bool],
        monotonic: Callable[[], float],
        limit_seconds: float = 60.0,
    ) -> None:
        """`done` is a count of finished work that only grows."""
        self._done = done
        self._has_work = has_work
        self._monotonic = monotonic
        self._limit = limit_seconds
        self._last_done = -1
        self._since = monotonic()

    def __call__(self) -> str | None:
        """The `Check`."""
        done, now = self._done(), self._monotonic()
        if done != self._last_done or not self._has_work():
            self._last_done, self._since = done, now
            return None
        stalled = now - self._since
        return f"work is waiting and none was done for {stalled:.0f} s" if stalled > self._limit else None
