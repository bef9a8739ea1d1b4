"""Why a question is not answered, and the bounds that lead there."""

import msgspec


class CopyLimits(msgspec.Struct, frozen=True):
    """The bounds of questions and of the copies that answer them."""

    seconds: float = 10.0
    """From the fork to the end of the answer; then the copy is killed."""
    waiting_seconds: float = 6.0
    """How long a question waits for its turn, and until the process may be forked again."""
    waiting: int = 16
    """How many questions wait."""
    at_once: int = 2
    """How many questions are worked on: a long simulation does not hold up the short questions behind it."""
    response_bytes: int = 32 << 20
    growth_bytes: int = 512 << 20
    """Memory beyond what the service has."""


class QueryFailedError(Exception):
    """The question was not answered. The text says why and whom to blame."""

    outcome = "failed"
    """A word for metrics."""
    retry_after_seconds = 1


class CopyBusyError(QueryFailedError):
    """Too many questions wait already, or this one waited too long for its turn."""

    outcome = "busy"


class CopyRefusedError(QueryFailedError):
    """There is no room for a copy."""

    outcome = "refused"
    retry_after_seconds = 30


class CopyStoppedError(CopyRefusedError):
    """The service ends."""

    retry_after_seconds = 5

    def __init__(self) -> None:
        super().__init__("the service is stopping: ask again in a moment")


class CopyTimeoutError(QueryFailedError):
    """The copy was killed at its deadline."""

    outcome = "timeout"
    retry_after_seconds = 10


class CopyFailedError(QueryFailedError):
    """The copy has ended without an answer, or the question has raised: a bug, or the kernel killed it."""


class ResponseTooLargeError(QueryFailedError):
    """The answer is larger than `CopyLimits.response_bytes`."""

    outcome = "too_large"
