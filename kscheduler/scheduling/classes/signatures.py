"""Classes of pods: every plugin gives the same verdict for all pods of a class, whatever state the cluster is in.

The problem: a hundred thousand pods that fit nowhere come from a few dozen Deployments and Jobs, and what is found
out about one of them is true for the others. The idea: each plugin signs what it reads of a pod (`sign`), for its
verdict and for its hints. The signatures of all plugins that judge, together with what the scheduler itself reads
(profile, priority, preemption policy, namespace and labels), identify the pod's class. The class depends on the pod
alone, never on the cluster, so it is valid until the pod changes. Plugins need not sign namespace and labels:
services, other pods' terms and namespace selectors may read them at any time, so they are always part of the class.

A pod has no class if a plugin that judges does not sign it (or may depend on anything), if it concerns
extenders (nobody signs what these say), if it is costly (`pod_weight`: its signature would be as large as it is), or
while a node is nominated for it.

A pod with a label of its own (a StatefulSet's pod-name, a Job's completion-index) is alone in its class, since any
plugin may come to read it. But what has been found out about it holds for all pods that differ only in labels that
nobody reads at present (`Signatures.verdict_class`): in-tree plugins tell which labels they read.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary

from kscheduler.config.extenders import is_queried_about
from kscheduler.framework.plugin import UNSIGNABLE
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.scheduling.profile import Profile
from kscheduler.scheduling.profiles import Profiles
from kscheduler.scheduling.runtime.sign_calls import Signer, or_without_class, signatures_of, signer_of
from kscheduler.state.nominator import NominatedPods


class PodClass:
    """A class of pods. There is one object for each distinct signature: compare by identity."""

    __slots__ = ("__weakref__", "era", "read", "signature", "verdict_class")

    def __init__(self, signature: tuple[Hashable, ...], era: object) -> None:
        self.signature = signature
        self.read: frozenset[str] | None = None
        """The labels that `verdict_class` has been worked out for."""
        self.verdict_class: PodClass | None = None
        """The class without the labels that nobody read then; `None` if it is this one."""
        self.era = era
        """Whose class it is: a pod that was being tried while the profiles changed has a class of the ones before."""


class Signatures:
    """The classes of all waiting pods; a class is forgotten once no pod, equivalence group or verdict refers to it."""

    def __init__(self, profiles: Profiles, nominator: NominatedPods) -> None:
        self._profiles = profiles
        self._nominator = nominator
        self._signers = {name: _judges_signers(profile) for name, profile in profiles.items()}
        self._by_name = {name: _signers_by_name(profile) for name, profile in profiles.items()}
        self._hinting_by_spec = {name: _hinting_by_spec(profile) for name, profile in profiles.items()}
        self._label_readers = {name: _label_readers(profile) for name, profile in profiles.items()}
        self._classes: WeakValueDictionary[Hashable, PodClass] = WeakValueDictionary()
        self._era = object()
        """Held by each class instead of `self`, so that a class that outlives the profiles keeps none of them."""

    def __len__(self) -> int:
        return len(self._classes)

    def class_of(self, pod: PodInfo) -> PodClass | None:
        """The pod's class, worked out once; `None` for a pod without class."""
        if pod.pod.status.nominated_node_name or self._nominator.nominated_node(pod):
            return None
        known = pod.signature
        if known is UNSIGNABLE:
            return None
        if isinstance(known, PodClass) and known.era is self._era:
            return known
        found = self._class_of(pod)
        pod.signature = found or UNSIGNABLE
        return found

    def hints_alike(self, pod: PodInfo, plugins: frozenset[str]) -> PodClass | None:
        """The same object for pods, nominated or not, for which the hints of these plugins give the same answers.

        `None` if a plugin does not sign. A hint reads what its plugin signs, and what is part of every class; one about
        nodes may read which node the pod is nominated to besides. Where no hint reads labels, pods with labels of their
        own, such as those of a StatefulSet, are alike.
        """
        profile = pod.pod.spec.scheduler_name
        known = self._by_name.get(profile, {})
        if not known.keys() >= plugins or pod.is_costly:
            return None
        signers = [known[name] for name in sorted(plugins)]
        read = _scheduler_reads_of_spec if plugins <= self._hinting_by_spec[profile] else _scheduler_reads
        return or_without_class(self._class_by_signatures, signers, pod, plugins, read(pod))

    def verdict_class(self, pod: PodInfo, of_pod: PodClass) -> PodClass:
        """The class of all pods that get the same verdict as this one of the class `of_pod`, as the cluster stands now.

        They are equal in all that is signed, and in those labels that a plugin reads at present. It is `of_pod` itself
        where a plugin does not tell what it reads, and while pods are nominated: their terms are held by nobody yet.
        """
        readers = self._label_readers.get(pod.pod.spec.scheduler_name)
        if readers is None or not pod.labels or len(self._nominator):
            return of_pod
        read = frozenset[str]().union(*[labels_read(pod) for labels_read in readers])
        if of_pod.read != read:
            of_pod.read, of_pod.verdict_class = read, self._without_others(read, pod, of_pod)
        return of_pod.verdict_class or of_pod

    def _without_others(self, read: frozenset[str], pod: PodInfo, of_pod: PodClass) -> PodClass | None:
        if pod.labels.keys() <= read:
            return None
        kept = frozenset([(key, pod.labels[key]) for key in pod.labels.keys() & read])
        _, *parts = of_pod.signature
        return self._interned(("verdict", _scheduler_reads_of_spec(pod), pod.namespace, kept, *parts))

    def _class_of(self, pod: PodInfo) -> PodClass | None:
        spec = pod.pod.spec
        profile, signers = self._profiles.get(spec.scheduler_name), self._signers.get(spec.scheduler_name)
        if profile is None or signers is None or _is_unlike_any(pod, profile) or pod.is_costly:
            return None
        return or_without_class(self._class_by_signatures, signers, pod, _scheduler_reads(pod))

    def _class_by_signatures(self, signers: Sequence[Signer], pod: PodInfo, *name: Hashable) -> PodClass | None:
        """The class of pods with this name and the same signatures. Call it inside `or_without_class`."""
        parts = signatures_of(signers, pod)
        return None if UNSIGNABLE in parts else self._interned((*name, *parts))

    def _interned(self, signature: tuple[Hashable, ...]) -> PodClass:
        known = self._classes.get(signature)
        if known is None:
            known = self._classes[signature] = PodClass(signature, self._era)
        return known


def _is_unlike_any(pod: PodInfo, profile: Profile) -> bool:
    """Whether the pod concerns extenders: no plugin signs what these say."""
    return bool(profile.extenders) and any(is_queried_about(extender, pod.pod) for extender in profile.extenders)


def _scheduler_reads(pod: PodInfo) -> Hashable:
    """What the scheduler itself reads of a pod, and what any plugin may read at any time."""
    return _scheduler_reads_of_spec(pod), pod.namespace, frozenset(pod.labels.items())


def _scheduler_reads_of_spec(pod: PodInfo) -> Hashable:
    spec = pod.pod.spec
    return spec.scheduler_name, pod.priority, spec.preemption_policy


def _hinting_by_spec(profile: Profile) -> frozenset[str]:
    """The plugins whose hints read neither labels nor the namespace of a pod."""
    return frozenset(plugin.name for plugin in profile.instances if profile.traits[plugin.name].hints_by_spec)


def _label_readers(profile: Profile) -> Sequence[Callable[[PodInfo], frozenset[str]]] | None:
    """Of each plugin that judges, what tells the labels that it reads; `None` if one of them may read any."""
    readers: list[Callable[[PodInfo], frozenset[str]]] = []
    for plugin in _judging(profile).values():
        traits = profile.traits[plugin.name]
        if traits.tells_labels_read:
            readers.append(plugin.labels_read)
        elif not traits.judges_without_labels:
            return None
    return readers


def _signers_by_name(profile: Profile) -> Mapping[str, Signer]:
    """The signers of all plugins that sign, by plugin name."""
    signed = [plugin for plugin in profile.instances if profile.traits[plugin.name].is_signed]
    return {plugin.name: _signer(plugin, profile) for plugin in signed}


def _judges_signers(profile: Profile) -> Sequence[Signer] | None:
    """The signers of the plugins that judge, PreEnqueue to PostFilter; `None` if one of them does not sign."""
    judging = _judging(profile)
    if not all(profile.traits[name].is_signed for name in judging):
        return None
    return [_signer(plugin, profile) for plugin in judging.values()]


def _judging(profile: Profile) -> Mapping[str, Any]:
    """The plugins that judge, by name."""
    points: Iterable[Iterable[Any]] = (profile.pre_enqueue, profile.pre_filter, profile.filter, profile.post_filter)
    return {plugin.name: plugin for point in points for plugin in point}


def _signer(plugin: Any, profile: Profile) -> Signer:
    return signer_of(plugin, profile.traits[plugin.name], profile.listener)
