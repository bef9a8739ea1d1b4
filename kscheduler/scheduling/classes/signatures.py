"""Which pods are alike: pods of one class are judged alike by every plugin, whatever happens.

The problem: a hundred thousand pods that fit nowhere come from a few dozen Deployments and Jobs, and what is found out
about one of them is true of all its like. The idea: each plugin says what it reads of a pod (`sign`), for its verdict
and for its hints alike; the signatures of all plugins that judge, together with what the scheduler itself reads
(profile, priority, preemption policy, namespace and labels), are the pod's class. It is a matter of the pod alone,
never of the cluster, so it holds as long as the pod is not changed. Namespace and labels need stand in no plugin's
signature: services, other pods' terms and namespace selectors may ask for them at any time.

A pod is like no other if a plugin that judges does not sign it (or may depend on anything), if it is held, and as long
as a node is nominated for it. Limit: a label of its own (a StatefulSet's pod-name, a Job's completion-index) makes a
pod a class of its own.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from kscheduler.framework.plugin import UNSIGNABLE
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.missing_rules import held_status, preemption_status
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.runtime.signing import Signer, or_judged_alone, signatures_of, signer_of
from kscheduler.state.nominations.nominator import NominatedPods


class PodClass:
    """Pods that are judged alike. There is one of it for each distinct signature: compare by identity."""

    __slots__ = ("__weakref__", "signature")

    def __init__(self, signature: Hashable) -> None:
        self.signature = signature


class Signatures:
    """The classes of all pods that wait; one that no pod, bundle or verdict refers to any more is forgotten."""

    def __init__(self, profiles: Profiles, nominator: NominatedPods) -> None:
        self._profiles = profiles
        self._nominator = nominator
        self._signers = {name: _signers(profile) for name, profile in profiles.items()}
        self._by_name = {name: _signing(profile) for name, profile in profiles.items()}
        self._classes: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._classes)

    def class_of(self, pod: PodInfo) -> PodClass | None:
        """The pod's class, worked out once; `None` for a pod that is like no other."""
        if pod.pod.status.nominated_node_name or self._nominator.nominated_node(pod):
            return None
        if pod.signature is None:
            pod.signature = self._class_of(pod) or UNSIGNABLE
        return pod.signature if isinstance(pod.signature, PodClass) else None

    def hints_alike(self, pod: PodInfo, plugins: frozenset[str]) -> PodClass | None:
        """Equal for pods of which the hints of these plugins say the same, nominated or not; `None` for any other.

        Hints read of a pod what their plugin signs, and what every class has in common.
        """
        known = self._by_name.get(pod.pod.spec.scheduler_name, {})
        if not known.keys() >= plugins:
            return None
        signers = [known[name] for name in sorted(plugins)]
        return or_judged_alone(self._alike, signers, pod, plugins)

    def _class_of(self, pod: PodInfo) -> PodClass | None:
        spec = pod.pod.spec
        profile, signers = self._profiles.get(spec.scheduler_name), self._signers.get(spec.scheduler_name)
        if profile is None or signers is None or _is_held(pod, profile):
            return None
        return or_judged_alone(self._alike, signers, pod)

    def _alike(self, signers: Sequence[Signer], pod: PodInfo, *name: Hashable) -> PodClass | None:
        """The class of pods that are signed like this one. Called inside `or_judged_alone`."""
        parts = signatures_of(signers, pod)
        return None if UNSIGNABLE in parts else self._interned((*name, _own(pod), *parts))

    def _interned(self, signature: Hashable) -> PodClass:
        known = self._classes.get(signature)
        if known is None:
            known = self._classes[signature] = PodClass(signature)
        return known


def _is_held(pod: PodInfo, profile: Profile) -> bool:
    """Whether the pod, or preemption for it, waits for a rule that is not built: no plugin signs that."""
    if not held_status(pod, profile.enabled, profile.extenders).is_success:
        return True
    return bool(profile.extenders) and not preemption_status(pod, profile.extenders).is_success


def _own(pod: PodInfo) -> Hashable:
    """What the scheduler itself reads."""
    spec = pod.pod.spec
    labels = frozenset(pod.labels.items())
    return spec.scheduler_name, pod.priority, spec.preemption_policy, pod.namespace, labels


def _signing(profile: Profile) -> Mapping[str, Signer]:
    """What signs for each plugin whose answers are a matter of that."""
    signed = [plugin for plugin in profile.instances if profile.traits[plugin.name].is_signed]
    return {plugin.name: _signer(plugin, profile) for plugin in signed}


def _signers(profile: Profile) -> Sequence[Signer] | None:
    """What signs for the plugins that judge; `None` where one of them cannot. After the cycle nothing is shared."""
    points: Iterable[Iterable[Any]] = (profile.pre_enqueue, profile.pre_filter, profile.filter, profile.post_filter)
    judges = {plugin.name: plugin for point in points for plugin in point}
    if not all(profile.traits[name].is_signed for name in judges):
        return None
    return [_signer(plugin, profile) for plugin in judges.values()]


def _signer(plugin: Any, profile: Profile) -> Signer:
    return signer_of(plugin, profile.traits[plugin.name], profile.listener)
