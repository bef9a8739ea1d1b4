"""What the experiment's programs read and write: a run, and where its tasks went."""

import gzip
import json
import zlib
from pathlib import Path

import msgspec

from kscheduler.sweep.trace.openb import TraceError
from kscheduler.sweep.trace.trace_objects import Run


def read_run(path: Path) -> Run:
    """Read INPUT.json, which may be packed by gzip. Raises `TraceError`."""
    try:
        content = path.read_bytes()
        plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        return msgspec.json.decode(plain, type=Run)
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as problem:
        raise TraceError(f"{path}: {problem}") from None


def as_line(task: str, node: str, devices: str) -> str:
    """A line of the result: `{"task": ..., "node": name or null, "gpus": [device indices]}`."""
    name = node.partition("-")[2] or None
    gpus = [int(device) for device in devices.split(",")] if devices else []
    return json.dumps({"task": task, "node": name, "gpus": gpus})
