"""The flags of the flight recorder."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kscheduler.cli.log_flags import size
from kscheduler.cli.parser import StoreText

if TYPE_CHECKING:
    from kscheduler.recorder.flight_recorder import RecordSettings

DEFAULT_SIZE: Final = 1 << 30
LEAST_SIZE: Final = 1 << 20


def add_record_flags(parser: Any, where: str = "") -> None:
    """Declare them. `where`: the beginning of each help."""
    parser.add_argument(
        "--record",
        action=StoreText,
        metavar="DIR",
        default="",
        help=f"{where}record what comes in and what is decided in files of this directory, for `kscheduler replay`; it "
        "is made if it is not there (default: nothing is recorded)",
    )
    parser.add_argument(
        "--record-max-size",
        type=record_size,
        metavar="SIZE",
        default=DEFAULT_SIZE,
        help=f"{where}of all files of --record together: the oldest are deleted (default 1Gi)",
    )


def record_size(text: str) -> int:
    """Bytes of a recording. Raises `ArgumentTypeError`."""
    found = size(text)
    if found < LEAST_SIZE:
        raise argparse.ArgumentTypeError(f"{text!r} is too little for a recording; write 1Gi for 1 GiB, 1Mi at least")
    return found


def record_settings(args: argparse.Namespace) -> "RecordSettings | None":
    """`None`: nothing is recorded."""
    from kscheduler.recorder.flight_recorder import RecordSettings

    return RecordSettings(Path(args.record), args.record_max_size) if args.record else None
