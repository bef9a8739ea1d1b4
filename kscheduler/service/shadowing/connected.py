"""A shadow's parts, built and connected: clients that cannot write, informers, the follower and its plugins."""

from typing import Final

from kscheduler.api.kinds import DEVICE_TAINT_RULES, KINDS
from kscheduler.assembly import configured_kinds
from kscheduler.client.access.connection import Connection, host_of
from kscheduler.client.reachability import APIServerReachability
from kscheduler.client.rest import ReadingClient
from kscheduler.explain.against import against
from kscheduler.informers.factory import InformerFactory
from kscheduler.informers.plugin_listers import CONNECTIONS_OF_PLUGINS, PluginListers
from kscheduler.informers.transform import AnnotatedPodTransform
from kscheduler.scheduling.background.refreshed_plugins import RefreshedPlugins
from kscheduler.service.monitors.api_server_monitor import APIServerMonitor
from kscheduler.service.shadowing.options import ShadowOptions
from kscheduler.shadow.follower import Follower, ShadowSettings

# For lists; watches have connections of their own.
CONNECTIONS: Final = 32


class ConnectedShadow:
    """The parts. Nothing runs yet."""

    def __init__(self, options: ShadowOptions, connection: Connection) -> None:
        """Raises `ConfigError` where a profile cannot be built."""
        clock, configuration = options.clock, options.config.configuration
        self.clock = clock
        self.reachability = APIServerReachability(host_of(connection.base_url), clock.monotonic())
        self.client = ReadingClient(
            connection, max_connections=CONNECTIONS, clock=clock, reachability=self.reachability
        )
        self.plugin_client = ReadingClient(connection, max_connections=CONNECTIONS_OF_PLUGINS, clock=clock)
        kinds = (*KINDS.values(), *configured_kinds(options.config))
        annotated = {"pods": AnnotatedPodTransform()} if configuration.honor_scheduler_name_annotation else None
        self.informers = InformerFactory(
            self.client, kinds, transforms=annotated, clock=clock, may_be_absent=(DEVICE_TAINT_RULES,)
        )
        self.plugin_listers = PluginListers(self.plugin_client, self.informers, clock)
        settings = ShadowSettings(options.names, options.followed, options.settle_seconds, options.grace_seconds)
        self.follower = Follower(
            options.config,
            options.registry,
            settings,
            against,
            clock,
            lister=self.plugin_listers.lister,
            client=self.plugin_client,
        )
        self.follower.listen_to(self.informers, kinds)
        self.refreshed = RefreshedPlugins(self.follower.assembly.profiles.values, clock)
        self.monitor = APIServerMonitor(self.reachability, self.client, self.informers, clock)

    async def wait_for_sync(self, seconds: float) -> tuple[str, ...]:
        """Wait for the first list of each kind; returns what is missing, and why."""
        return await self.informers.wait_for_sync(seconds) or await self.plugin_listers.wait_for_sync(seconds)
