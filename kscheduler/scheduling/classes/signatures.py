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

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakValueDictionary

from kscheduler.framework.plugin import UNSIGNABLE, Plugin, Signature, Source
from kscheduler.framework.pod_info import PodInfo
from kscheduler.scheduling.classes.signing import signer_of
from kscheduler.scheduling.missing_rules import held_status, preemption_status
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import Profiles
from kscheduler.state.nominator import NominatedPods

_Signers = Sequence[Callable[[PodInfo], Signature]]
_JUDGING: Final = ("pre_enqueue", "pre_filter", "filter", "post_filter", "events_to_register")


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
        signers = [known.get(name) for name in sorted(plugins)]
        if None in signers:
            return None
        try:
            parts = [sign(pod) for sign in signers if sign is not None]
            return None if UNSIGNABLE in parts else self._interned((plugins, _own(pod), *parts))
        except BaseException:  # noqa: BLE001  a plugin call: a pod that cannot be read is judged by itself, and says why then
            return None

    def _class_of(self, pod: PodInfo) -> PodClass | None:
        spec = pod.pod.spec
        profile, signers = self._profiles.get(spec.scheduler_name), self._signers.get(spec.scheduler_name)
        if profile is None or signers is None or _is_held(pod, profile):
            return None
        try:
            parts = [sign(pod) for sign in signers]
            return None if UNSIGNABLE in parts else self._interned((_own(pod), *parts))
        except BaseException:  # noqa: BLE001  a plugin call: a pod that cannot be read is judged by itself, and says why then
            return None

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


def _signing(profile: Profile) -> Mapping[str, Callable[[PodInfo], Signature]]:
    """What signs for each plugin whose answers are a matter of that."""
    plugins: Sequence[Any] = profile.instances
    return {plugin.name: signer_of(plugin, profile.listener) for plugin in plugins if signs(plugin)}


def _signers(profile: Profile) -> _Signers | None:
    """What signs for the plugins that judge; `None` where one of them cannot. After the cycle nothing is shared."""
    points: Iterable[Iterable[Any]] = (profile.pre_enqueue, profile.pre_filter, profile.filter, profile.post_filter)
    judges = {plugin.name: plugin for point in points for plugin in point}
    if not all(signs(plugin) for plugin in judges.values()):
        return None
    return [signer_of(plugin, profile.listener) for plugin in judges.values()]


def signs(plugin: Plugin) -> bool:
    """Whether a plugin's verdict is a matter of what it signs and of sources that are known."""
    is_signed = hasattr(plugin, "sign") and not _has_outgrown_its_signature(type(plugin))
    return is_signed and Source.ANYTHING not in plugin.depends_on


def _has_outgrown_its_signature(kind: type[Plugin]) -> bool:
    """Whether a class judges otherwise than the one that it has `sign` from: it may read more of a pod."""
    signing = next((place for place, one in enumerate(kind.__mro__) if "sign" in vars(one)), 0)
    return any(method in vars(one) for one in kind.__mro__[:signing] for method in _JUDGING)
