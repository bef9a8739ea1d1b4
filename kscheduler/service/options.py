"""The options that a service is started with."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import msgspec

from kscheduler.aio.clock import REAL_CLOCK, Clock
from kscheduler.assembly.configured import Configured
from kscheduler.assembly.plugin_loading import PluginOrigin
from kscheduler.client.events.scheduled import ScheduledEvents
from kscheduler.config.loader import LoadedConfig
from kscheduler.election.watchdog import end_process
from kscheduler.framework.registry import Registry
from kscheduler.plugins import in_tree
from kscheduler.scheduling.drift.drift_check import Periods
from kscheduler.server.serving import HTTPServing
from kscheduler.service.config_file import ConfigSource

if TYPE_CHECKING:  # imported where something is recorded
    from kscheduler.recorder.flight_recorder import RecordSettings

# The configuration with this content under the rules of a version. Raises `ConfigError`; called in a thread.
ReadUnder = Callable[[str, bytes], Configured]


class Options(msgspec.Struct, frozen=True):
    """The configuration, and settings that only the command line has."""

    config: LoadedConfig
    source: ConfigSource | None = None
    """The file that the configuration came from, to read it again when it changes; `None`: it stays as it is."""
    read_under: ReadUnder | None = None
    """Reads the configuration under the rules of the API server's version; `None`: those of `config` stay."""
    kubeconfig_named_by: str = "--kubeconfig"
    """Who names the kubeconfig: the flag, or a field of a file; for the message where it cannot be read."""
    kubeconfig: str = ""
    master: str = ""
    context: str = ""
    """The context of the kubeconfig; empty means its current-context."""
    serving: HTTPServing = msgspec.field(default_factory=HTTPServing)
    """Where and how HTTP is answered."""
    periods: Periods = msgspec.field(default_factory=Periods)
    """How often cache and stores are checked."""
    memory_alarm: int | None = None
    """Bytes that stand for the memory limit of the process, where its cgroup has none or a higher one."""
    serves_queries: bool = True
    """Whether /explain and /simulate are served, which a copy of the process answers."""
    repairs_overcommitted_nodes: bool = False
    """Whether pods of ours that have not started are evicted from nodes that another scheduler has overcommitted."""
    scheduled_events: ScheduledEvents = "all"
    """Which bound pods get an Event."""
    pipeline_depth: int = 1
    """How many Bindings, or Events, of a namespace may leave together over one connection; 1: each alone."""
    record: "RecordSettings | None" = None
    """Where the flight recorder writes; `None`: nothing is recorded."""
    clock: Clock = msgspec.field(default=REAL_CLOCK)
    permit_token_file: str = ""
    """The file with the token for `/waiting-pods`; without it the path is for whom the API server allows it."""
    flags: Mapping[str, str] = {}
    """All flags with the values in force, for `/flagz`."""
    end_at_once: Callable[[str], object] = msgspec.field(default=end_process)
    """Ends a process that hangs and has lost its lease; gets the reason. Called in a thread."""
    registry: Registry = msgspec.field(default_factory=in_tree.registry)
    """Plugins by name: the in-tree plugins, and those that your program has registered or `loading` has found."""
    origins: tuple[PluginOrigin, ...] = ()
    """Where those that were loaded came from."""
