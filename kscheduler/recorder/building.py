"""A recorder from settings, and the state that it records, of the parts of a scheduler."""

import os
import socket
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kscheduler.aio.clock import Clock
from kscheduler.api.kinds import Kind
from kscheduler.assembly.assembled import Assembly, Informers
from kscheduler.assembly.plugin_loading import PluginOrigin
from kscheduler.recorder.flight_recorder import Attempts, FlightRecorder, RecordedState, RecordSettings
from kscheduler.recorder.redaction import NO_REDACTION, KeyedRedaction
from kscheduler.recorder.replaying.recorded_configuration import described
from kscheduler.recorder.segment_thread import SegmentThread, WriteSettings
from kscheduler.recorder.segments import new_run
from kscheduler.recorder.snapshot import snapshot_of

LARGEST_SEGMENT = 64 << 20
# A segment is at most this part of all: so much of the past is lost when the oldest goes.
_SHARE = 8


def flight_recorder(settings: RecordSettings, clock: Clock) -> FlightRecorder:
    """A recorder that has not begun."""
    segment = settings.segment_bytes or min(LARGEST_SEGMENT, max(settings.most_bytes // _SHARE, 1))
    run = new_run(clock.time(), _process())
    write = WriteSettings(settings.directory, run, settings.most_bytes, segment, settings.segment_seconds)
    key = settings.redaction_key
    # The thread has one of its own for snapshots: neither waits for the other's tables, or sees them half filled.
    of_loop, of_thread = (KeyedRedaction(key) if key else NO_REDACTION for _ in range(2))
    return FlightRecorder(SegmentThread(write, of_thread), clock, of_loop)


def tie_name_of(recorder: FlightRecorder | None) -> Callable[[str], str]:
    """The names that break ties while it records: a recording without names has pseudonyms only, also for a replay."""
    return str if recorder is None else recorder.redaction.text


def _process() -> int:
    """The process's number; in a container, where each is 1, one that is made of the pod's name.

    So replicas that share a volume and start within a second write different files.
    """
    process = os.getpid()
    return process if process > 1 else zlib.crc32(socket.gethostname().encode())


def recorded_state_of(
    assembly: Assembly,
    informers: Informers,
    kinds: Sequence[Kind],
    origins: Callable[[], Sequence[PluginOrigin]],
) -> RecordedState:
    """Snapshots of these parts. `kinds`: those that the recorder hears, in the order of their numbers."""

    def describe(config: Any) -> Callable[[], Mapping[str, Any]]:
        return partial(described, config, tuple(origins()), has_classes=assembly.has_classes)

    def snapshot(micros: int, attempts: Attempts, number: int) -> Callable[[], Iterable[Sequence[Any]]]:
        objects = {kind: informers[kind].store.list() for kind in kinds}
        return snapshot_of(assembly, objects, describe(assembly.config), micros, attempts, number).entries

    return RecordedState(describe, snapshot, assembly.cache.topology_levels.awaited)
