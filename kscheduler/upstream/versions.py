"""Version numbers as API servers tell them, and which of the followed versions belongs to one."""

import re
from collections.abc import Iterable
from typing import Final

from kscheduler.upstream.behaviours import BEHAVIOURS

SEE_OTHER_VERSION: Final = "see --emulated-version"


def followed(server_version: str) -> str | None:
    """The newest followed version that is not newer than the API server; `None` where that cannot be read."""
    minor = minor_of(server_version)
    if minor is None:
        return None
    return next((version for version in reversed(BEHAVIOURS) if numbers_of(version) <= minor), next(iter(BEHAVIOURS)))


def had_by(versions: Iterable[str]) -> str:
    """Said of what the version in question does not have, and these do."""
    return f"Kubernetes {', '.join(versions)} has it: {SEE_OTHER_VERSION}"


def minor_of(server_version: str) -> tuple[int, int] | None:
    """(1, 36) of `v1.36.3`; `None` for anything else."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?!\d)", server_version)
    return (int(match[1]), int(match[2])) if match else None


def numbers_of(version: str) -> tuple[int, ...]:
    """(1, 36) of `1.36`."""
    return tuple(int(part) for part in version.split("."))
