"""KubeSchedulerConfiguration of v1alpha1 to v1beta3, and of v1 with plugins of other projects, to v1.

What changed between the versions, by Kubernetes' own release notes and the types of those releases:

- v1alpha1 (up to 1.18): one scheduler a file; its name, algorithm source, affinity weight, preemption switch and volume
  timeout at the top.
- v1alpha2, v1beta1 (1.18 to 1.24): profiles; the score plugins by resources were plugins of their own.
- v1beta2 (1.22 to 1.27): addresses for health and metrics; weights 1 for NodeAffinity, InterPodAffinity and
  TaintToleration, which are 2, 2 and 3 since v1beta3.
- v1beta3 (1.23 to 1.28): as v1, with SelectorSpread and one plugin a volume type.
"""

from typing import Any, Final

from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME
from kscheduler.config.conversion.located import Fields, Items, Notes, objects_in
from kscheduler.config.conversion.profiles import PluginsOfProfile, ProfileDraft, set_strategy, weigh_hard_affinity
from kscheduler.config.errors import config_error, shown
from kscheduler.config.plugin_args import MOST_ALLOCATED
from kscheduler.config.types import API_VERSION, KIND

VERSIONS: Final = ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1")
# Default plugins whose weight was 1 up to v1beta2, with that of v1.
_LIGHT: Final = {"NodeAffinity": 2, "InterPodAffinity": 2, "TaintToleration": 3}
_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")
_TOP: Final = frozenset(("apiVersion", "kind", "profiles", "podGroupAPIs", *_ADDRESSES))
_OF_ALPHA_1: Final = frozenset(
    (
        "schedulerName",
        "algorithmSource",
        "hardPodAffinitySymmetricWeight",
        "disablePreemption",
        "bindTimeoutSeconds",
        "plugins",
        "pluginConfig",
    )
)
_LOCK_NAMES: Final = {"lockObjectName": "resourceName", "lockObjectNamespace": "resourceNamespace"}


def of_version(tree: Fields, where: str, notes: Notes) -> Fields:
    """The same configuration in v1. Raises `ConfigError` for a version that never was."""
    given = str(tree.get("apiVersion") or "")
    group, _, version = given.rpartition("/")
    if version not in VERSIONS or group not in ("kubescheduler.config.k8s.io", "componentconfig"):
        message = f"{shown(given)} is no version of {KIND}: there were {', '.join(VERSIONS)}"
        raise config_error("apiVersion", message, where)
    is_alpha_1 = version == "v1alpha1"
    result = tree.without(_TOP | _OF_ALPHA_1 if is_alpha_1 else _TOP)
    result |= {"apiVersion": API_VERSION, "kind": KIND}
    for name in _ADDRESSES:
        if tree.get(name) is not None:
            reason = "not converted: the flags --bind-address and --secure-port say where the service listens"
            notes.add(tree.lines[name], name, reason)
    _convert_election(tree.get("leaderElection"), notes)
    given_apis = tree.get("podGroupAPIs")
    apis = {each for each in given_apis if isinstance(each, str)} if isinstance(given_apis, Items) else set()
    drafts = []
    for profile in [tree] if is_alpha_1 else list(objects_in(tree, "profiles", notes)) or [Fields(tree.line)]:
        draft = ProfileDraft(profile.without(tree if is_alpha_1 else ("plugins", "pluginConfig")))
        plugins = PluginsOfProfile(draft, version, notes, has_sources=bool(tree.get("pluginSources")))
        plugins.read(profile)
        apis |= plugins.apis
        if is_alpha_1:
            _convert_alpha_1(tree, draft, notes)
        if VERSIONS.index(version) <= VERSIONS.index("v1beta2"):
            _write_weights(draft, version, profile.line, notes)
        drafts.append(draft)
    if apis:
        result["podGroupAPIs"] = sorted(apis)
    if drafts:
        result["profiles"] = [draft.tree() for draft in drafts]
    return result


def _convert_election(election: Any, notes: Notes) -> None:
    if not isinstance(election, Fields):
        return
    lock = election.get("resourceLock")
    if lock not in (None, "", "leases"):
        reason = f"leases takes the place of {shown(lock)}: two schedulers with different locks both decide"
        notes.add(election.lines["resourceLock"], "leaderElection.resourceLock", reason)
        election["resourceLock"] = "leases"
    for old, new in _LOCK_NAMES.items():
        if old in election:
            election.setdefault(new, election.pop(old))


def _convert_alpha_1(tree: Fields, draft: ProfileDraft, notes: Notes) -> None:
    """The fields that profiles and arguments have now."""
    draft.fields["schedulerName"] = tree.get("schedulerName") or DEFAULT_SCHEDULER_NAME
    weigh_hard_affinity(draft, tree, notes)
    if tree.get("bindTimeoutSeconds") is not None:
        if draft.runs("preBind", "VolumeBinding"):
            draft.args("VolumeBinding").setdefault("bindTimeoutSeconds", tree["bindTimeoutSeconds"])
        else:
            reason = "not converted: it is how long VolumeBinding waits, which the file disables"
            notes.add(tree.lines["bindTimeoutSeconds"], "bindTimeoutSeconds", reason)
    if tree.get("disablePreemption"):
        draft.disable("multiPoint", "DefaultPreemption")
    source = tree.get("algorithmSource")
    if isinstance(source, Fields):
        if source.get("provider") == "ClusterAutoscalerProvider" and not draft.runs("score", "NodeResourcesFit"):
            reason = "not converted: it packs by NodeResourcesFit's score, which the file disables"
            notes.add(source.lines["provider"], "algorithmSource.provider", reason)
        elif source.get("provider") == "ClusterAutoscalerProvider":
            set_strategy(draft, MOST_ALLOCATED, {})
        elif source.get("provider") not in (None, "", "DefaultProvider"):
            reason = f"not converted: there is no provider {shown(source['provider'])}"
            notes.add(source.lines["provider"], "algorithmSource.provider", reason)
        if source.get("policy") is not None:
            reason = "not converted: convert the policy file or ConfigMap that it names, and merge the two"
            notes.add(source.lines["policy"], "algorithmSource.policy", reason)


def _write_weights(draft: ProfileDraft, version: str, line: int, notes: Notes) -> None:
    """The weights that these plugins had by default, so that decisions stay as they were."""
    written = []
    for name in _LIGHT:
        is_named = name in (*draft.names("score", "enabled"), *draft.names("multiPoint", "enabled"))
        if not is_named and not draft.is_disabled("score", name):
            draft.enable("multiPoint", name, 1)
            written.append(name)
    if written:
        now = ", ".join(f"{name} {_LIGHT[name]}" for name in written)
        reason = f"the defaults of {version} are written out; to have those of v1 ({now}), remove them"
        notes.add(line, "weights", reason)
