"""Settings that have no effect here (yet): each gives a warning that names the field.

Only settings that the user wrote give a warning. In the service, whose log is read for what is wrong, only if the value
differs from kube-scheduler's default: a default that is written out changes nothing. `config check` reports everything
(`defaults_too`). A change that builds a feature removes its line from `RULES`.
"""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

import msgspec

from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.config.errors import shown
from kscheduler.config.extenders import decides
from kscheduler.config.loader import LoadedConfig, default_configuration
from kscheduler.config.other_projects import near_plugin, of_others
from kscheduler.config.plugin_args import HTTPSource, LoadAwareArgs
from kscheduler.config.types import Extender, LeaderElectionConfiguration, Plugins, PluginSet


class SettingWarning(msgspec.Struct, frozen=True):
    """A setting without effect."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class Rule(msgspec.Struct, frozen=True):
    """A setting that has no effect, unless its value describes what the service does anyway."""

    path: str
    """The path, with `[*]` for any index."""
    reason: str
    fine: Callable[[Any], bool] = lambda _value: False
    """Whether this value is what the service does anyway."""


def _is_off(value: Any) -> bool:
    return value is False


def _speaks_json(content_type: Any) -> bool:
    return not content_type or "json" in str(content_type) or "*/*" in str(content_type)


_NO_CONTENTION = "contention profiles are Go's; /debug/profile and /debug/stacks are what there is"
_JSON_ONLY = "the client speaks JSON only"

RULES: tuple[Rule, ...] = (
    Rule("enableContentionProfiling", _NO_CONTENTION, _is_off),
    Rule("clientConnection.contentType", _JSON_ONLY, _speaks_json),
    Rule("clientConnection.acceptContentTypes", _JSON_ONLY, _speaks_json),
)

# In-tree plugins that are about placements of pod groups alone.
_OF_PLACEMENTS: Final = frozenset(("PodGroupPodsCount", "TopologyPlacementGenerator"))
# Seconds that an extender's `httpTimeout` may have without a warning.
_LONGEST_CALL: Final = 300
_INDEX = re.compile(r"\[\d+\]")
# Feature gates with the extension points, and the in-tree plugins, that do nothing without them.
_FOR_POD_GROUPS: Final[tuple[tuple[str, tuple[str, ...], frozenset[str]], ...]] = (
    ("GenericWorkload", ("pod_group_post_filter", "placement_feasible"), frozenset()),
    ("TopologyAwareWorkloadScheduling", ("placement_generate", "placement_score"), _OF_PLACEMENTS),
)
_CAMEL = dict(zip(Plugins.__struct_fields__, Plugins.__struct_encode_fields__, strict=True))


def unhonoured(
    loaded: LoadedConfig,
    rules: tuple[Rule, ...] = RULES,
    *,
    plugins: Collection[str] = (),
    defaults_too: bool = False,
) -> tuple[SettingWarning, ...]:
    """A warning for each setting that the user gave and that has no effect, in the order of their paths.

    `plugins`: the names of all that there are, with those of one's own; without them no name is doubted.
    `defaults_too`: also of kube-scheduler's defaults that the file writes out.
    """
    warnings = [
        *_from_rules(loaded, rules, defaults_too=defaults_too),
        *_from_points_of_pod_groups(loaded),
        *_from_extenders(loaded),
        *_from_unencrypted_sources(loaded),
        *_from_empty_names(loaded),
        *_from_the_lease(loaded),
        *(_from_unknown_names(loaded, plugins) if plugins else ()),
    ]
    return tuple(sorted(warnings, key=lambda warning: warning.path))


def _from_rules(loaded: LoadedConfig, rules: tuple[Rule, ...], *, defaults_too: bool) -> Iterator[SettingWarning]:
    by_path = {rule.path: rule for rule in rules}
    defaults = default_configuration().configuration
    for path in loaded.given:
        rule = by_path.get(_INDEX.sub("[*]", path))
        if rule is None:
            continue
        value = _value_at(loaded.as_given, path)
        if (defaults_too or value != _value_at(defaults, path)) and not rule.fine(value):
            yield SettingWarning(path, f"has no effect: {rule.reason}")


def _value_at(configuration: Any, path: str) -> Any:
    value = configuration
    for part in path.split("."):
        name, _, index = part.partition("[")
        fields = dict(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        value = getattr(value, fields[name])
        value = value[int(index.removesuffix("]"))] if index else value
    return value


def _from_the_lease(loaded: LoadedConfig) -> Iterator[SettingWarning]:
    """A file that names no Lease has kube-scheduler's, which only one of the two can hold."""
    election = loaded.configuration.leader_election
    usual = LeaderElectionConfiguration()
    is_its_own = any(profile.scheduler_name == DEFAULT_SCHEDULER_NAME for profile in loaded.configuration.profiles)
    lease = election.resource_namespace, election.resource_name
    if election.leader_elect and lease == (usual.resource_namespace, usual.resource_name) and not is_its_own:
        reason = (
            "this is kube-scheduler's Lease, and no profile is default-scheduler: nothing is scheduled here while "
            "kube-scheduler holds it, and kube-scheduler waits while it is held here; name another one"
        )
        yield SettingWarning("leaderElection.resourceName", reason)


def _from_points_of_pod_groups(loaded: LoadedConfig) -> Iterator[SettingWarning]:
    """Plugins that only pod groups meet, while there are none: kube-scheduler takes them without a word."""
    for gate, points, plugins in _FOR_POD_GROUPS:
        if gate in loaded.gates.known and loaded.gates.enabled(gate):
            continue
        reason = f"has no effect: it is for pod groups, and feature gate {gate} is off"
        for index, profile in enumerate(loaded.as_given.profiles):
            path = f"profiles[{index}]"
            for point in points:
                if getattr(profile.plugins, point) != PluginSet():
                    yield SettingWarning(f"{path}.plugins.{_CAMEL[point]}", reason)
            for number, plugin in enumerate(profile.plugins.multi_point.enabled):
                if plugin.name in plugins:
                    yield SettingWarning(f"{path}.plugins.multiPoint.enabled[{number}]", reason)
            for number, entry in enumerate(profile.plugin_config):
                if entry.name in plugins:
                    yield SettingWarning(f"{path}.pluginConfig[{number}]", reason)


def _from_extenders(loaded: LoadedConfig) -> Iterator[SettingWarning]:
    for index, extender in enumerate(loaded.as_given.extenders):
        if not (decides(extender) or extender.bind_verb):
            yield SettingWarning(f"extenders[{index}]", "it is never called: it has no verb")
        yield from _from_one_extender(f"extenders[{index}]", extender)
        if extender in loaded.as_given.extenders[:index]:
            yield SettingWarning(f"extenders[{index}]", "listed twice: it is asked twice, and its points add up")
        tls = extender.tls_config
        has_authority = tls is not None and bool(tls.ca_file or tls.ca_data or tls.insecure)
        if extender.enable_https and not has_authority:
            reason = "without tlsConfig.caFile or caData no certificate is checked, as in kube-scheduler"
            yield SettingWarning(f"extenders[{index}].enableHTTPS", reason)
        if tls is not None and tls.insecure:
            reason = "no certificate is verified: anyone on the path can read pods and answer for the extender"
            yield SettingWarning(f"extenders[{index}].tlsConfig.insecure", reason)
        if extender.url_prefix.lower().startswith("http://"):
            yield from _from_unencrypted(f"extenders[{index}]", extender)


def _from_one_extender(path: str, extender: Extender) -> Iterator[SettingWarning]:
    """Values that kube-scheduler takes without a word, and that nobody means."""
    given = extender.http_timeout.seconds
    if given < 0:
        yield SettingWarning(f"{path}.httpTimeout", "it is negative: every call fails at once")
    elif given > _LONGEST_CALL:
        reason = f"a pod may wait so long for an answer; more than {_LONGEST_CALL} s is rarely meant"
        yield SettingWarning(f"{path}.httpTimeout", reason)
    tls = extender.tls_config
    if tls is not None and bool(tls.cert_file or tls.cert_data) != bool(tls.key_file or tls.key_data):
        reason = "no client certificate is sent: a certificate and its key are needed, and one of them is missing"
        yield SettingWarning(f"{path}.tlsConfig", reason)


def _from_unencrypted(path: str, extender: Extender) -> Iterator[SettingWarning]:
    """Only `https://` brings TLS, in kube-scheduler, too; anyone who sets something else for it believes that it is
    on.
    """
    reason = "it does not encrypt: urlPrefix begins with http://, not https://"
    if extender.enable_https:
        yield SettingWarning(f"{path}.enableHTTPS", reason)
    elif extender.tls_config is not None:
        yield SettingWarning(f"{path}.tlsConfig", reason)
    if "@" in extender.url_prefix.partition("://")[2].partition("/")[0]:
        yield SettingWarning(
            f"{path}.urlPrefix", "its user name and password are sent unencrypted: it begins with http://"
        )


def _from_unencrypted_sources(loaded: LoadedConfig) -> Iterator[SettingWarning]:
    """Policies whose source has `http://`: a token goes over the network for everybody to read."""
    for index, profile in enumerate(loaded.as_given.profiles):
        for number, entry in enumerate(profile.plugin_config):
            path, source = f"profiles[{index}].pluginConfig[{number}].args", entry.args
            if isinstance(source, LoadAwareArgs):
                path, source = f"{path}.prometheus", source.prometheus
            if not isinstance(source, HTTPSource) or not source.url.lower().startswith("http://"):
                continue
            if source.bearer_token_file:
                reason = "the token is sent unencrypted: url begins with http://"
                yield SettingWarning(f"{path}.bearerTokenFile", reason)
            if source.ca_file:
                yield SettingWarning(f"{path}.caFile", "it does not encrypt: url begins with http://, not https://")


def _from_empty_names(loaded: LoadedConfig) -> Iterator[SettingWarning]:
    """Empty names and addresses: kube-scheduler accepts them, but they cannot be intended.

    Four places: a profile's scheduler name, its plugin arguments, its disabled plugins, an extender's address.
    """
    for index, profile in enumerate(loaded.as_given.profiles):
        path, name = f"profiles[{index}]", profile.scheduler_name
        if any(character.isspace() for character in name):
            yield SettingWarning(f"{path}.schedulerName", f"only pods that name exactly {shown(name)} are scheduled")
        for number, entry in enumerate(profile.plugin_config):
            if not entry.name.strip():
                yield SettingWarning(f"{path}.pluginConfig[{number}].name", "has no effect: it names no plugin")
        for field, point in _CAMEL.items():
            for number, plugin in enumerate(getattr(profile.plugins, field).disabled):
                if not plugin.name.strip():
                    where = f"{path}.plugins.{point}.disabled[{number}].name"
                    yield SettingWarning(where, "has no effect: it names no plugin")
    for index, extender in enumerate(loaded.as_given.extenders):
        if not extender.url_prefix.strip():
            yield SettingWarning(f"extenders[{index}].urlPrefix", "it is empty: there is no extender to call")


def _from_unknown_names(loaded: LoadedConfig, plugins: Collection[str]) -> Iterator[SettingWarning]:
    """Arguments for plugins that do not exist, and such plugins disabled: kube-scheduler takes both without a word."""
    for index, profile in enumerate(loaded.as_given.profiles):
        path = f"profiles[{index}]"
        named = [(f"pluginConfig[{number}].name", entry.name) for number, entry in enumerate(profile.plugin_config)]
        for field, point in _CAMEL.items():
            entries = enumerate(getattr(profile.plugins, field).disabled)
            named += [(f"plugins.{point}.disabled[{number}].name", plugin.name) for number, plugin in entries]
        for place, name in named:
            if name.strip() and name != "*" and name not in plugins:
                near, other = near_plugin(name, plugins), of_others(name)
                hint = f": {other}" if other else f": do you mean {near}?" if near else ""
                yield SettingWarning(f"{path}.{place}", f"has no effect: no plugin is named {shown(name)}{hint}")
