"""KubeSchedulerConfiguration v1 (kubescheduler.config.k8s.io): every field with its unit, default and consequence.

A field's default here is what kube-scheduler 1.36 assumes if a file leaves the field out; a few defaults depend on
other fields or gates and are filled in by `defaults`. A `LoadedConfig` has all defaults.
"""

from typing import Any, Final, TypeVar

import msgspec

from kscheduler.config.durations import Duration, seconds
from kscheduler.config.plugin_args import Int32, Int64, Settings

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
# The scheduler name without a configuration file: kube-scheduler's pods are left alone.
OWN_SCHEDULER_NAME: Final = "kscheduler"

Args = TypeVar("Args", bound=Settings)


class LeaderElectionConfiguration(Settings, frozen=True):
    """Which of several replicas schedules."""

    leader_elect: bool = True
    """Whether to hold a Lease before scheduling. Off means that exactly one replica may run."""
    lease_duration: Duration = seconds(15)
    """How long others wait, without seeing a renewal, before they take over. Above `renewDeadline`."""
    renew_deadline: Duration = seconds(10)
    """How long the leader tries to renew before it gives up. Above 1.2 times `retryPeriod`."""
    retry_period: Duration = seconds(2)
    """The time between two attempts."""
    resource_lock: str = "leases"
    """Only `leases` exists."""
    resource_name: str = "kube-scheduler"
    """Name of the Lease; two schedulers with different work need different names."""
    resource_namespace: str = "kube-system"
    """Namespace of the Lease."""


class ClientConnectionConfiguration(Settings, frozen=True):
    """The connection to the API server."""

    kubeconfig: str = ""
    """Path of a kubeconfig file; empty means the pod's own service account."""
    accept_content_types: str = ""
    """Accept header; empty means the content type."""
    content_type: str = "application/vnd.kubernetes.protobuf"
    """Body encoding that kube-scheduler uses; kscheduler always speaks JSON."""
    qps: float = 50.0
    """Requests per second on average. Missing or negative: no limit, the client adapts to the server; 0 means 50."""
    burst: Int32 = 100
    """Requests in a burst; 0 means 100."""


class PluginEntry(Settings, frozen=True):
    """A plugin in a list."""

    name: str = ""
    """The name as registered; in `disabled`, `*` means all."""
    weight: Int32 | None = None
    """Factor of its score; missing or 0 means 1. Only for scores."""


class PluginSet(Settings, frozen=True):
    """What is enabled and disabled at one extension point."""

    enabled: tuple[PluginEntry, ...] = ()
    """These run in this order, after the defaults; an entry that names a default replaces it in place."""
    disabled: tuple[PluginEntry, ...] = ()
    """Defaults that must not run at this point."""


class Plugins(Settings, frozen=True):
    """Plugin sets by extension point; `multiPoint` reaches every point that a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    """May the pod enter the queue?"""
    queue_sort: PluginSet = PluginSet()
    """Which pod goes first: exactly one plugin, the same in all profiles."""
    pre_filter: PluginSet = PluginSet()
    """Work on the pod before nodes are judged."""
    filter: PluginSet = PluginSet()
    """Which nodes are possible."""
    post_filter: PluginSet = PluginSet()
    """What to do if no node is possible: preemption."""
    pre_score: PluginSet = PluginSet()
    """Work on the possible nodes before they are scored."""
    score: PluginSet = PluginSet()
    """Which possible node is best; the only point where weights count."""
    reserve: PluginSet = PluginSet()
    """Called when a node is chosen, and when binding fails later."""
    permit: PluginSet = PluginSet()
    """May allow, refuse or delay the binding."""
    pre_bind: PluginSet = PluginSet()
    """What must exist before binding: volumes, devices."""
    bind: PluginSet = PluginSet()
    """Binds the pod: at least one."""
    post_bind: PluginSet = PluginSet()
    """Called after binding."""
    multi_point: PluginSet = PluginSet()
    """Stands for all points that a plugin implements; the entry of a specific point wins over it."""
    placement_generate: PluginSet = PluginSet()
    """Pod groups: candidate placements; before Kubernetes 1.38 at most one plugin."""
    placement_score: PluginSet = PluginSet()
    """Pod groups: which placement is best."""
    pod_group_post_filter: PluginSet = PluginSet()
    """Pod groups (from Kubernetes 1.37 on): what to do if the group fits nowhere: preemption."""
    placement_feasible: PluginSet = PluginSet()
    """Pod groups (from Kubernetes 1.38 on): whether enough of the group fits into a placement."""


class PluginConfig(Settings, frozen=True):
    """Arguments of a plugin."""

    name: str = ""
    """The plugin's name."""
    args: Any = None
    """Of the plugin's type in `plugin_args.ARGS_KINDS`; for any other plugin, the dict that was given."""
    time_budget: Duration | None = None
    """How long one call of the plugin may hold the scheduler, 1ms to 2s; missing means 200ms. kscheduler's own field,
    for plugins that are not in-tree."""
    on_failure: str | None = None
    """What becomes of the profile when the plugin has failed for three pods of two namespaces, and answered for no pod
    in between: `Fail` (its pods wait), `Ignore` (it goes on
    without the plugin) or `Fallback` (it goes on with in-tree plugins only); missing means `Fail`. kscheduler's own
    field, for plugins that are not in-tree."""


HASH, FIRST_IN_ORDER = "Hash", "FirstInOrder"


class KubeSchedulerProfile(Settings, frozen=True):
    """A scheduler name, and how pods with this name are scheduled."""

    scheduler_name: str = ""
    """Schedules pods with this `spec.schedulerName`. In a single profile, missing means `default-scheduler`."""
    percentage_of_nodes_to_score: Int32 | None = None
    """Overrides the field of the same name for this profile."""
    percentage_of_placements_to_score: Int32 | None = None
    """Overrides the field of the same name for this profile."""
    plugins: Plugins = Plugins()
    """Merged with the default set."""
    tie_rule: str | None = None
    """How one of several nodes with the most points is chosen. `Hash`, also where it is missing: by a hash of the pod's
    UID and the node's name, as even as chance. `FirstInOrder`: the first by name, so that equal nodes are filled one
    after the other."""
    plugin_config: tuple[PluginConfig, ...] = ()
    """Arguments by plugin; completed with the defaults of every enabled plugin that takes arguments."""

    def args(self, plugin: str, kind: type[Args]) -> Args:
        """The plugin's arguments, or the defaults if there are none of this kind (as for a disabled plugin)."""
        given = (entry.args for entry in self.plugin_config if entry.name == plugin)
        return next((args for args in given if isinstance(args, kind)), kind())


class ExtenderManagedResource(Settings, frozen=True):
    """A resource that an extender accounts for."""

    name: str = ""
    """An extended resource: `example.com/gpu`."""
    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit ignores it."""


class ExtenderTLSConfig(Settings, frozen=True):
    """TLS for the connection to an extender."""

    insecure: bool = False
    """Do not verify the certificate; for tests only."""
    server_name: str = ""
    """Name to verify instead of the URL's host."""
    cert_file: str = ""
    """Path of the client certificate."""
    key_file: str = ""
    """Path of the client certificate's key."""
    ca_file: str = ""
    """Path of the certificates to trust."""
    cert_data: str = ""
    """The client certificate inline, base64; wins over `certFile`."""
    key_data: str = ""
    """The key inline, base64; wins over `keyFile`."""
    ca_data: str = ""
    """The certificates to trust inline, base64; wins over `caFile`."""


class Extender(Settings, frozen=True):
    """A webhook that filters, scores, preempts or binds besides the plugins."""

    url_prefix: str = ""
    """Verbs are appended to this."""
    filter_verb: str = ""
    """Empty: the extender does not filter."""
    preempt_verb: str = ""
    """Empty: the extender takes no part in preemption."""
    prioritize_verb: str = ""
    """Empty: the extender does not score."""
    weight: Int64 = 0
    """Factor of its scores; above 0 if `prioritizeVerb` is set."""
    bind_verb: str = ""
    """Empty: the extender does not bind. Only one extender may bind."""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    """Whether to use TLS."""
    tls_config: ExtenderTLSConfig | None = None
    """The TLS settings."""
    http_timeout: Duration = Duration(0)
    """The timeout of a call; 0 means 5 s."""
    node_cache_capable: bool = False
    """Send node names rather than whole nodes."""
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    """Only pods that request one of these are sent; empty means all pods."""
    ignorable: bool = False
    """Whether scheduling continues without the extender when it fails."""


class PluginSource(Settings, frozen=True):
    """A place that custom plugins are loaded from (kscheduler only): a `file` or a `module`."""

    file: str = ""
    """Path of a Python file, relative to the configuration's own directory; below a `--plugin-directory` of the
    command line."""
    sha256: str = ""
    """The file's digest, as `sha256sum` prints it: any other content is refused."""
    module: str = ""
    """Name of a module that the interpreter can import: `acme.policies`."""


class KubeSchedulerConfiguration(Settings, frozen=True):
    """The whole file."""

    parallelism: Int32 = 16
    """Pods that may be with the API server at a time (Bindings under way) at the start; the number adapts between 1 and
    four times this. In kube-scheduler: goroutines that judge nodes. Above 0."""
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    """Which replica schedules."""
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    """The connection to the API server."""
    enable_profiling: bool = True
    """Whether `/debug/cache`, `/debug/queue`, `/debug/stacks`, `/debug/profile` and `/debug/flags/v` are served; Go's
    `/debug/pprof` is not (docs/differences.md)."""
    enable_contention_profiling: bool | None = None
    """Whether profiles include lock contention; missing means as `enableProfiling`."""
    percentage_of_nodes_to_score: Int32 = 0
    """0 to 100: stop once this percentage of the nodes fits (at least 100 nodes). 0: kube-scheduler adapts;
    kscheduler judges all nodes."""
    percentage_of_placements_to_score: Int32 | None = None
    """0 to 100 (from Kubernetes 1.38 on, with TopologyAwareWorkloadScheduling): stop once a pod group fits into this
    percentage of the placements. 0 adapts to the number of nodes in them; missing means 0."""
    pod_initial_backoff_seconds: Int64 = 1
    """Seconds before a pod's second attempt; doubles with each. Above 0."""
    pod_max_backoff_seconds: Int64 = 10
    """The most seconds that the backoff grows to. Not below `podInitialBackoffSeconds`."""
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    """At least one; missing means a single profile with all defaults."""
    extenders: tuple[Extender, ...] = ()
    """Webhooks, called in this order."""
    plugin_sources: tuple[PluginSource, ...] = ()
    """Where custom plugins come from (kscheduler only)."""
    pod_group_apis: tuple[str, ...] = msgspec.field(name="podGroupAPIs", default=())
    """APIs besides Kubernetes' own whose pod groups are placed all or nothing: `scheduler-plugins`, `volcano`
    (kscheduler only); missing means none. See docs/pod-groups.md."""
    topology_levels: tuple[tuple[str, ...], ...] = ()
    """Lists of labels of nodes, each from wide (a zone) to narrow (a rack): what is around a level that a pod group
    asks for (kscheduler only). Missing means as the well-known labels say. See docs/pod-groups.md."""
    topology_apis: tuple[str, ...] = msgspec.field(name="topologyAPIs", default=())
    """Projects whose objects name levels, too: `kueue` (Topology; of older Kueues `kueue-v1beta1`), `volcano`
    (HyperNode) (kscheduler only); missing means none."""
    honor_scheduler_name_annotation: bool | None = None
    """Whether pods whose `spec.schedulerName` is `default-scheduler` may name their scheduler by the annotation
    `scheduler.alpha.kubernetes.io/name` instead (kscheduler only); missing means no. kube-scheduler, if it runs, serves
    such pods too: see docs/policies.md."""
    delay_cache_until_active: bool = False
    """Fill the caches only when elected: saves memory on standbys and makes fail-over slower."""
