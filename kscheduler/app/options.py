"""What a service is started with."""

from dataclasses import dataclass, field

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.api.well_known import SCHEDULER_PORT
from kscheduler.config.loader import LoadedConfig
from kscheduler.framework.registry import Registry
from kscheduler.plugins import in_tree
from kscheduler.scheduling.truth.truth_keeping import Periods


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says beside the configuration file."""

    config: LoadedConfig
    kubeconfig: str = ""
    master: str = ""
    context: str = ""
    """Of the kubeconfig; empty: its current-context."""
    bind_address: str = "0.0.0.0"
    port: int = SCHEDULER_PORT
    periods: Periods = field(default_factory=Periods)
    """How often cache and stores are checked."""
    clock: Clock = field(default=REAL_CLOCK)
    permit_token_file: str = ""
    """Whose token opens `/waiting-pods`; without it the path is shut."""
    registry: Registry = field(default_factory=in_tree.registry)
    """Plugins by name: the in-tree ones, and whatever a program of yours has registered besides."""
