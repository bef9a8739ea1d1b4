"""The flags of the flight recorder."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kscheduler.cli.log_flags import size
from kscheduler.cli.parser import StoreText

if TYPE_CHECKING:
    from kscheduler.recorder.flight_recorder import RecordSettings

DEFAULT_SIZE: Final = 1 << 30
LEAST_SIZE: Final = 1 << 20
_LEAST_KEY_BYTES: Final = 16
_NEW_KEY_BYTES: Final = 32


class RedactionKeyError(ValueError):
    """The flags of a key cannot be used. The message names flag and file."""


def add_record_flags(parser: Any, where: str = "") -> None:
    """Declare them. `where`: the beginning of each help."""
    parser.add_argument(
        "--record",
        action=StoreText,
        metavar="DIR",
        default="",
        help=f"{where}record what comes in and what is decided in files of this directory, for `kscheduler replay`; it "
        "is made if it is not there. Names, labels and values of annotations stand in them as they are, unless "
        "--record-redact is given (default: nothing is recorded)",
    )
    parser.add_argument(
        "--record-max-size",
        type=record_size,
        metavar="SIZE",
        default=DEFAULT_SIZE,
        help=f"{where}of all files of --record together: the oldest are deleted (default 1Gi)",
    )
    parser.add_argument(
        "--record-redact",
        action="store_true",
        help=f"{where}hash the names of pods, nodes, namespaces and all else that --record writes, and values of "
        "labels and annotations, with a key that only this process has; the recording can be replayed as any other",
    )
    parser.add_argument(
        "--record-redact-key",
        action=StoreText,
        metavar="FILE",
        default="",
        help=f"{where}hash them with the key in this file (16 bytes at least), so that names are equal in the "
        "recordings of all replicas and after a restart",
    )


def lacking_record(args: argparse.Namespace) -> str:
    """Why flags of a recording cannot be used: who asks for one without names must not believe that there is one."""
    flags = {"--record-redact": args.record_redact, "--record-redact-key": args.record_redact_key}
    given = next((flag for flag, value in flags.items() if value), "")
    return f"{given}: needs --record, which says where to record" if given and not args.record else ""


def lacking_key(args: argparse.Namespace) -> str:
    """What is wrong with the flags about redaction, flag and file first; empty: nothing."""
    try:
        redaction_key(args)
    except RedactionKeyError as problem:
        return str(problem)
    return ""


def redaction_key(args: argparse.Namespace) -> bytes:
    """The key of `--record-redact` or `--record-redact-key`; empty: nothing is hashed.

    Raises `RedactionKeyError`, whose message names flag and file; also if there is no `--record`.
    """
    lacking = lacking_record(args)
    if lacking:
        raise RedactionKeyError(lacking)
    if not args.record_redact_key:
        return os.urandom(_NEW_KEY_BYTES) if args.record_redact else b""
    try:
        key = Path(args.record_redact_key).read_bytes().strip()
    except OSError as problem:
        raise RedactionKeyError(f"--record-redact-key: {args.record_redact_key}: {problem.strerror}") from None
    if len(key) < _LEAST_KEY_BYTES:
        raise RedactionKeyError(
            f"--record-redact-key: {args.record_redact_key}: {len(key)} bytes are too few for a key; write "
            f"{_LEAST_KEY_BYTES} at least: head -c 32 /dev/urandom | base64 > {args.record_redact_key}"
        )
    return key


def record_size(text: str) -> int:
    """Bytes of a recording. Raises `ArgumentTypeError`."""
    found = size(text)
    if found < LEAST_SIZE:
        raise argparse.ArgumentTypeError(f"{text!r} is too little for a recording; write 1Gi for 1 GiB, 1Mi at least")
    return found


def record_settings(args: argparse.Namespace) -> "RecordSettings | None":
    """`None`: nothing is recorded. Raises `RedactionKeyError`."""
    key = redaction_key(args)
    if not args.record:
        return None
    from kscheduler.recorder.flight_recorder import RecordSettings

    return RecordSettings(Path(args.record), args.record_max_size, redaction_key=key)
