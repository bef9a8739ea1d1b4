"""Calls to HTTP extenders: one POST of JSON each, to an address that the configuration names.

The address stands here, as a value, so that it can be checked without the HTTP client.
"""

from typing import Final

import msgspec

from kscheduler.client.access.tls import TLSFieldNames, TLSFiles

# The deadline of a call where the configuration names none, as in kube-scheduler.
DEFAULT_SECONDS: Final = 5.0


class ExtenderAddress(msgspec.Struct, frozen=True):
    """Where an extender is, and how to speak to it."""

    shown: str
    """The address without secrets, for messages."""
    url_prefix: str
    timeout_seconds: float = 0.0
    """Of a whole call; 0 means `DEFAULT_SECONDS`."""
    tls: TLSFiles = msgspec.field(default_factory=TLSFiles)
    places: TLSFieldNames = msgspec.field(default_factory=TLSFieldNames)
    """The configuration fields of the TLS settings, for messages."""
