"""The Kubernetes whose rules are followed: the one place that names its release."""

from typing import Final

RELEASE: Final = "v1.36.3"
"""As an API server tells it (`gitVersion`); the embedded one does, and so do hollow kubelets."""
VERSION: Final = RELEASE.removeprefix("v").rpartition(".")[0]
"""`1.36`: gates, defaults and decisions are those of all its patch releases."""
