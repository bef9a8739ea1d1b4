"""The one error of the library: what was given cannot be used, or the API server has not answered."""

from collections.abc import Iterator
from contextlib import contextmanager

from kscheduler.api.codec import UndecodableError
from kscheduler.client.errors import ClientError, ConfigurationError
from kscheduler.config.errors import ConfigError
from kscheduler.framework.registry import DuplicatePluginError
from kscheduler.scenario.errors import ClusterError, ScenarioError

_BELOW = (ScenarioError, ConfigError, UndecodableError, DuplicatePluginError, ClientError, ConfigurationError)


@contextmanager
def raising_cluster_error() -> Iterator[None]:
    """Raises `ClusterError` in place of the errors of the layers below; the cause stays attached."""
    try:
        yield
    except _BELOW as problem:
        raise ClusterError(str(problem).replace("--plugin: ", "plugins: ")) from problem


__all__ = ["ClusterError", "raising_cluster_error"]
