"""The release of Kubernetes whose rules are followed; no other module names it."""

from typing import Final

RELEASE: Final = "v1.36.3"
"""As an API server reports it (`gitVersion`); the embedded API server and the hollow kubelets do."""
VERSION: Final = RELEASE.removeprefix("v").rpartition(".")[0]
"""`1.36`: gates, defaults and decisions are the same in all its patch releases."""
