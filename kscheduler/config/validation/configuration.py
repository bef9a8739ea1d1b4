"""What a complete configuration must satisfy: every mistake, with its path, in kube-scheduler's words.

One intended difference: arguments of NodeResourcesFit are checked here with all others, but kube-scheduler (because of
a wrong key in a table) finds their mistakes only when it builds the plugin.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping

from kscheduler.api.topologies import MAX_LEVELS, opposite_orders
from kscheduler.api.well_known import HOSTNAME
from kscheduler.config.durations import Duration, seconds
from kscheduler.config.errors import Problem, duplicate, forbidden, invalid, required, unsupported
from kscheduler.config.feature_gates import PLACEMENTS, FeatureGates
from kscheduler.config.in_tree_plugins import IN_TREE_PLUGINS
from kscheduler.config.plugin_args import ARGS_KINDS
from kscheduler.config.types import (
    API_VERSION,
    FIRST_IN_ORDER,
    HASH,
    Extender,
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElectionConfiguration,
    PluginConfig,
    Plugins,
)
from kscheduler.config.validation import policies
from kscheduler.config.validation.arguments import args_problems
from kscheduler.config.validation.names import (
    is_extended_resource,
    label_faults,
    qualified_name_faults,
    subdomain_faults,
)

# Removed since v1beta3; NodeVolumeLimits does their work.
REMOVED_PLUGINS = frozenset(("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"))

# A leader's retries are spread by this factor, so the renew deadline must be longer than a retry times it.
JITTER_FACTOR = 1.2

# Of one call of a plugin (`timeBudget`).
LEAST_BUDGET, MAX_BUDGET = seconds(0.001), seconds(2)
ON_FAILURE = ("Fail", "Ignore", "Fallback")
# Below these an election cannot work: a Lease holds whole seconds, and one renewal is a request to the API server.
#
# kube-scheduler accepts a millisecond; its replicas then do nothing but ask, and lose the Lease at each slow answer.
SHORTEST_LEASE_TIMES: Mapping[str, Duration] = {
    "leaseDuration": seconds(1),
    "renewDeadline": seconds(0.5),
    "retryPeriod": seconds(0.1),
}

ABOVE_RENEW_DEADLINE = "must be greater than `RenewDeadline`"
# kube-scheduler's words about two times of the election that contradict each other.
ABOVE_RETRY_PERIOD = "renewDeadline must be greater than retryPeriod*JitterFactor"

PERCENTAGE_OF_PLACEMENTS = "percentageOfPlacementsToScore"
# What `podGroupAPIs` may name.
POD_GROUP_APIS = ("scheduler-plugins", "volcano")
# What `topologyAPIs` may name.
TOPOLOGY_APIS = ("kueue", "kueue-v1beta1", "volcano")
# As many lists as one may have levels.
_MAX_LISTS = MAX_LEVELS

_POINTS_OF_PLACEMENTS = ("placement_generate", "placement_score", "placement_feasible")
_CAMEL = dict(zip(Plugins.__struct_fields__, Plugins.__struct_encode_fields__, strict=True))


def validate(configuration: KubeSchedulerConfiguration, gates: FeatureGates) -> list[Problem]:
    """All problems of a completed configuration (after `defaults.apply_defaults`); an empty list means it is usable."""
    return [
        *_client_connection(configuration),
        *_leader_election(configuration.leader_election),
        *_parallelism(configuration),
        *_profiles(configuration.profiles, gates),
        *_supervision(configuration),
        *_percentage("percentageOfNodesToScore", configuration.percentage_of_nodes_to_score),
        *_percentage_of_placements("", configuration.percentage_of_placements_to_score, gates),
        *_backoff(configuration),
        *_extenders(configuration.extenders),
        *_names("podGroupAPIs", configuration.pod_group_apis, POD_GROUP_APIS),
        *_names("topologyAPIs", configuration.topology_apis, TOPOLOGY_APIS),
        *_topology_levels(configuration.topology_levels),
    ]


def _names(field: str, names: tuple[str, ...], known: tuple[str, ...]) -> Iterator[Problem]:
    for index, name in enumerate(names):
        path = f"{field}[{index}]"
        if name not in known:
            yield unsupported(path, name, known)
        elif name in names[:index]:
            yield duplicate(path, name)


def _topology_levels(lists: tuple[tuple[str, ...], ...]) -> Iterator[Problem]:
    if len(lists) > _MAX_LISTS:
        yield invalid("topologyLevels", len(lists), f"must be at most {_MAX_LISTS} lists")
    for number, keys in enumerate(lists):
        path = f"topologyLevels[{number}]"
        if not 0 < len(keys) <= MAX_LEVELS:
            yield invalid(path, len(keys), f"must be 1 to {MAX_LEVELS} labels, from wide to narrow")
        for index, key in enumerate(keys):
            yield from (invalid(f"{path}[{index}]", key, fault) for fault in qualified_name_faults(key))
            if key in keys[:index]:
                yield duplicate(f"{path}[{index}]", key)
            elif key == HOSTNAME and index < len(keys) - 1:
                yield invalid(f"{path}[{index}]", key, "must be the last: a node is the narrowest level")
    for found in opposite_orders((f"topologyLevels[{number}]", keys) for number, keys in enumerate(lists[:_MAX_LISTS])):
        yield invalid(found.name, [found.wide, found.narrow], f"{found.other} has them in the opposite order")


def _client_connection(configuration: KubeSchedulerConfiguration) -> Iterator[Problem]:
    burst = configuration.client_connection.burst
    if burst < 0:
        yield invalid("clientConnection.burst", burst, "must be non-negative")


def _leader_election(election: LeaderElectionConfiguration) -> Iterator[Problem]:
    if not election.leader_elect:
        return
    times = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, duration in times.items():
        if duration <= 0:
            yield invalid(f"leaderElection.{name}", duration, "must be greater than zero")
        elif duration < SHORTEST_LEASE_TIMES[name]:
            detail = f"must be at least {SHORTEST_LEASE_TIMES[name]}: no client can renew a Lease faster"
            yield invalid(f"leaderElection.{name}", duration, detail)
    if election.lease_duration <= election.renew_deadline:
        # kube-scheduler shows the deadline as the bad value here.
        yield invalid("leaderElection.leaseDuration", election.renew_deadline, ABOVE_RENEW_DEADLINE)
    if election.renew_deadline <= election.retry_period * JITTER_FACTOR:
        yield invalid("leaderElection.renewDeadline", election.renew_deadline, ABOVE_RETRY_PERIOD)
    if election.resource_lock != "leases":
        yield invalid("leaderElection.resourceLock", election.resource_lock, 'resourceLock value must be "leases"')
    yield from _lease_name("leaderElection.resourceName", election.resource_name, subdomain_faults)
    yield from _lease_name("leaderElection.resourceNamespace", election.resource_namespace, label_faults)


def _lease_name(path: str, name: str, faults: Callable[[str], tuple[str, ...]]) -> Iterator[Problem]:
    """A name that the API server would refuse with each request: nobody would ever lead."""
    if not name:
        yield required(path)
        return
    yield from (invalid(path, name, fault) for fault in faults(name))


def _parallelism(configuration: KubeSchedulerConfiguration) -> Iterator[Problem]:
    if configuration.parallelism <= 0:
        yield invalid("parallelism", configuration.parallelism, "should be an integer value greater than zero")


def _percentage(path: str, percentage: int | None) -> Iterator[Problem]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _percentage_of_placements(parent: str, percentage: int | None, gates: FeatureGates) -> Iterator[Problem]:
    """Where the followed version does not have the field, reading it has said so."""
    path = f"{parent}{PERCENTAGE_OF_PLACEMENTS}"
    if percentage is None or not gates.behaviours.has_percentage_of_placements:
        return
    if gates.enabled(PLACEMENTS):
        yield from _percentage(path, percentage)
    else:
        yield forbidden(path, f"{PERCENTAGE_OF_PLACEMENTS} requires {PLACEMENTS} feature gate to be enabled")


def _backoff(configuration: KubeSchedulerConfiguration) -> Iterator[Problem]:
    first, longest = configuration.pod_initial_backoff_seconds, configuration.pod_max_backoff_seconds
    if first <= 0:
        yield invalid("podInitialBackoffSeconds", first, "must be greater than 0")
    if longest < first:
        detail = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", longest, detail)


def _profiles(profiles: tuple[KubeSchedulerProfile, ...], gates: FeatureGates) -> Iterator[Problem]:
    if not profiles:
        yield required("profiles")
        return
    seen: dict[str, str] = {}
    for index, profile in enumerate(profiles):
        path = f"profiles[{index}]"
        if not profile.scheduler_name:
            yield required(f"{path}.schedulerName")
        yield from _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
        yield from _percentage_of_placements(f"{path}.", profile.percentage_of_placements_to_score, gates)
        if profile.tie_rule not in (None, HASH, FIRST_IN_ORDER):
            yield unsupported(f"{path}.tieRule", profile.tie_rule, (HASH, FIRST_IN_ORDER))
        yield from _removed_plugins(f"{path}.plugins", profile.plugins, gates)
        yield from _plugin_config(f"{path}.pluginConfig", profile.plugin_config, gates)
        yield from _rules_without_filter(path, profile)
        if profile.scheduler_name in seen:
            yield duplicate(f"{path}.schedulerName", seen[profile.scheduler_name])
        seen[profile.scheduler_name] = f"{path}.schedulerName"
    yield from _common_queue_sort(profiles)


def _rules_without_filter(path: str, profile: KubeSchedulerProfile) -> Iterator[Problem]:
    """Arguments that reject nodes, of a policy that only scores in this profile: they would have no effect."""
    enabled = {plugin.name for plugin in (*profile.plugins.multi_point.enabled, *profile.plugins.filter.enabled)}
    for index, entry in enumerate(profile.plugin_config):
        rule = policies.hard_rule_of(entry.args)
        scores = any(plugin.name == entry.name for plugin in profile.plugins.score.enabled)
        if rule and scores and entry.name not in enabled:
            detail = f"rejects nodes in Filter: enable {entry.name} under plugins.multiPoint, not only under score"
            yield forbidden(f"{path}.pluginConfig[{index}].args.{rule}", detail)


def _supervision(configuration: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """The fields of our own: time budget and what follows a quarantine."""
    election = configuration.leader_election
    margin = election.lease_duration - election.renew_deadline
    for index, profile in enumerate(configuration.profiles):
        for number, entry in enumerate(profile.plugin_config):
            path, budget = f"profiles[{index}].pluginConfig[{number}]", entry.time_budget
            if entry.name in IN_TREE_PLUGINS:
                detail = "it is for plugins that are not in-tree"
                if budget is not None:
                    yield forbidden(f"{path}.timeBudget", detail)
                if entry.on_failure is not None:
                    yield forbidden(f"{path}.onFailure", detail)
                continue
            if budget is not None and not LEAST_BUDGET <= budget <= MAX_BUDGET:
                yield invalid(f"{path}.timeBudget", budget, f"not in valid range [{LEAST_BUDGET}-{MAX_BUDGET}]")
            elif budget is not None and election.leader_elect and budget >= margin:
                detail = "must be less than leaderElection.leaseDuration - renewDeadline: a renewal would come too late"
                yield invalid(f"{path}.timeBudget", budget, detail)
            if entry.on_failure is not None and entry.on_failure not in ON_FAILURE:
                yield unsupported(f"{path}.onFailure", entry.on_failure, ON_FAILURE)


def _removed_plugins(path: str, plugins: Plugins, gates: FeatureGates) -> Iterator[Problem]:
    unchecked = ("multi_point", *(() if gates.behaviours.checks_plugins_of_placements else _POINTS_OF_PLACEMENTS))
    for name in (name for name in Plugins.__struct_fields__ if name not in unchecked):
        for index, plugin in enumerate(getattr(plugins, name).enabled):
            if plugin.name in REMOVED_PLUGINS:
                yield _removed(f"{path}.{_CAMEL[name]}.enabled[{index}]", plugin.name)


def _removed(path: str, name: str) -> Problem:
    detail = f'was invalid in version "{API_VERSION}" (KubeSchedulerConfiguration is version "{API_VERSION}")'
    return invalid(path, name, detail)


def _plugin_config(path: str, entries: tuple[PluginConfig, ...], gates: FeatureGates) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        where = f"{path}[{index}]"
        if entry.name in seen:
            yield duplicate(where, entry.name)
        seen.add(entry.name)
        if entry.name in REMOVED_PLUGINS:
            yield _removed(where, entry.name)
        elif entry.name in ARGS_KINDS:
            yield from _typed_args(f"{where}.args", entry, gates)


def _typed_args(path: str, entry: PluginConfig, gates: FeatureGates) -> Iterator[Problem]:
    if type(entry.args) is ARGS_KINDS[entry.name]:
        yield from args_problems(path, entry.args, gates)
    else:
        yield invalid(path, entry.args, "has to match plugin args")


def _common_queue_sort(profiles: tuple[KubeSchedulerProfile, ...]) -> Iterator[Problem]:
    """All profiles share one queue, so all must sort it the same way."""
    first = profiles[0].plugins.queue_sort
    if len(first.enabled) > 1:
        detail = "only one queue sort plugin can be enabled"
        yield invalid("profiles[0].plugins.queueSort.Enabled", len(first.enabled), detail)
    sorter = first.enabled[0].name if first.enabled else None
    args = _args_of(profiles[0], sorter)
    for index, profile in enumerate(profiles[1:], start=1):
        if profile.plugins.queue_sort != first:
            detail = "must be the same for all profiles"
            yield invalid(f"profiles[{index}].plugins.queueSort", profile.plugins.queue_sort, detail)
        for entry in profile.plugin_config:
            if entry.name == sorter and entry.args != args:
                detail = "queueSort must be the same for all profiles"
                yield invalid(f"profiles[{index}].pluginConfig.args", entry.args, detail)


def _args_of(profile: KubeSchedulerProfile, plugin: str | None) -> object:
    return next((entry.args for entry in profile.plugin_config if entry.name == plugin), None)


def _extenders(extenders: tuple[Extender, ...]) -> Iterator[Problem]:
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        path = f"extenders[{index}]"
        if extender.prioritize_verb and extender.weight <= 0:
            yield invalid(f"{path}.weight", extender.weight, "must have a positive weight applied to it")
        yield from _tls(f"{path}.tlsConfig", extender.tls_config)
        for number, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{number}].name"
            yield from _resource_name(where, resource.name)
            if resource.name in managed:
                yield invalid(where, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid("extenders", found, "only one extender can implement bind")


def _tls(path: str, tls: ExtenderTLSConfig | None) -> Iterator[Problem]:
    """The problems that kube-scheduler finds when it reads the file and builds its client; no file is opened here."""
    if tls is None:
        return
    for name, data in (("certData", tls.cert_data), ("keyData", tls.key_data), ("caData", tls.ca_data)):
        try:
            b64decode(data.replace("\n", "").replace("\r", ""), validate=True)
        except ValueError:
            yield Problem(f"{path}.{name}", "illegal base64 data")
    if tls.insecure and (tls.ca_file or tls.ca_data):
        detail = "specifying a root certificates file with the insecure flag is not allowed"
        yield invalid(f"{path}.insecure", value=True, detail=detail)


def _resource_name(path: str, name: str) -> Iterator[Problem]:
    faults = qualified_name_faults(name)
    yield from (invalid(path, name, fault) for fault in faults)
    if not faults and not is_extended_resource(name):
        yield invalid(path, name, "is an invalid extended resource name")
