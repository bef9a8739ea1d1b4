"""kscheduler: a Kubernetes scheduler service that is exact, fast, clear, and yours to extend."""

__version__ = "0.1.0"
