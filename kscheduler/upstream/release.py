"""The release of Kubernetes whose rules are followed, and the API servers that were tried: named here only."""

from typing import Final

RELEASE: Final = "v1.36.3"
"""As an API server reports it (`gitVersion`); the embedded API server and the hollow kubelets do."""
VERSION: Final = RELEASE.removeprefix("v").rpartition(".")[0]
"""`1.36`: gates, defaults and decisions are the same in all its patch releases."""

OLDEST_SERVER: Final = "1.34"
NEWEST_SERVER: Final = "1.37"
"""API servers on which `make e2e-versions` has run the end-to-end suite: `docs/compatibility.md`."""
