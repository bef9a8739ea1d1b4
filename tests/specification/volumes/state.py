"""The scheduler's cache with its storage and, beside it, the same world in plain objects."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from kscheduler.api.core import Node, Pod
from kscheduler.api.meta import KubeObject
from kscheduler.api.releases import BEHAVIOURS, VERSION
from kscheduler.api.storage import PersistentVolume, PersistentVolumeClaim
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import Handle
from kscheduler.framework.pods.pod_info import PodInfo
from kscheduler.plugins.storage.volume_binding import VolumeBinding
from kscheduler.state.cache import Cache
from tests.specification.volumes.binding_rules import SELECTED, Choice
from tests.specification.volumes.rules import World

Seen = dict[tuple[type, str], KubeObject | None]


@dataclass
class Undertaking:
    """A pod for which volumes are set aside."""

    plugin: VolumeBinding
    state: CycleState
    pod: PodInfo
    node_name: str
    assumed: dict[tuple[type, str], Any]


@dataclass
class StorageCluster:
    """Both; every change is told to both."""

    cache: Cache = field(default_factory=Cache)
    world: World = field(default_factory=World)
    undertakings: list[Undertaking] = field(default_factory=list)
    _version: int = 0

    @property
    def handle(self) -> Handle:
        behaviours = msgspec.structs.replace(BEHAVIOURS[VERSION], compares_storage_exactly=self.world.compares_exactly)
        return Handle(
            self.cache,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            volumes=self.cache.volumes,
            behaviours=behaviours,
        )

    def put(self, made: KubeObject) -> None:
        """An object is there, or has changed: it has a new version, and what was assumed of it is forgotten."""
        self._version += 1
        metadata = msgspec.structs.replace(made.metadata, resource_version=str(self._version))
        obj: Any = msgspec.structs.replace(made, metadata=metadata)
        match obj:
            case Node():
                self.cache.add_node(obj)
                self.world.nodes[obj.metadata.name] = obj
            case Pod():
                self.cache.add_pod(obj)
                self.world.pods[obj.metadata.uid] = obj
            case _:
                self.cache.volumes.put(obj)
                self.world.storage[type(obj), obj.key] = obj
                self.world.assumed.pop((type(obj), obj.key), None)

    def remove(self, obj: KubeObject) -> None:
        """An object is gone, if it was there."""
        match obj:
            case Node():
                self.cache.remove_node(obj.metadata.name)
                self.world.nodes.pop(obj.metadata.name, None)
            case Pod():
                self.cache.remove_pod(obj.metadata.uid)
                self.world.pods.pop(obj.metadata.uid, None)
            case _:
                known = self.world.storage.pop((type(obj), obj.key), obj)
                self.cache.volumes.remove(known)
                self.world.assumed.pop((type(obj), obj.key), None)

    def relist(self) -> None:
        """The watch begins again and shows all storage in the version that is known: nothing is forgotten."""
        for obj in list(self.world.storage.values()):
            self.cache.volumes.put(obj)

    def seen(self) -> Seen:
        """All volumes and claims as the cache shows them, assumed or not."""
        volumes, found = self.cache.volumes, Seen()
        for kind, key in self.world.storage:
            if kind is PersistentVolume:
                found[kind, key] = volumes.volume(key)
            elif kind is PersistentVolumeClaim:
                found[kind, key] = volumes.claim(*key.split("/"))
        return found

    def expected(self, choice: Choice, node_name: str) -> Seen:
        """All volumes and claims as they must be shown after the choice is set aside."""
        shown = {key: self.world.see(*key) for key in self.seen()}
        for name, claim_key in choice.bound.items():
            claim = self.world.see(PersistentVolumeClaim, claim_key)
            shown[PersistentVolume, name] = owned_by(shown[PersistentVolume, name], claim)
        for claim_key in choice.made:
            claim = shown[PersistentVolumeClaim, claim_key]
            shown[PersistentVolumeClaim, claim_key] = noted(claim, SELECTED, node_name)
        return shown

    def keep(self, undertaking: Undertaking) -> None:
        """Set aside once more, and for a while."""
        assert undertaking.plugin.reserve(undertaking.state, undertaking.pod, undertaking.node_name).is_success
        self.undertakings.append(undertaking)
        self.world.assumed |= undertaking.assumed

    def give_back(self, undertaking: Undertaking) -> None:
        """Set aside no longer; what is of another version by now is left alone."""
        self.undertakings.remove(undertaking)
        undertaking.plugin.unreserve(undertaking.state, undertaking.pod, undertaking.node_name)
        for key, assumed in undertaking.assumed.items():
            now = self.world.assumed.get(key)
            if now is not None and now.metadata.resource_version == assumed.metadata.resource_version:
                del self.world.assumed[key]


def owned_by(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume with the claim's name on it; a controller chose it unless it named the claim before."""
    meta, owner = claim.metadata, volume.spec.claim_ref
    if owner is not None and owner.uid == meta.uid:
        return volume
    reference = {"kind": "PersistentVolumeClaim", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
    whole = {**reference, "apiVersion": "v1", "resourceVersion": meta.resource_version}
    tree = msgspec.to_builtins(volume)
    tree["spec"]["claimRef"] = whole
    owned = msgspec.convert(tree, PersistentVolume)
    return owned if owner is not None else noted(owned, "pv.kubernetes.io/bound-by-controller", "yes")


def noted(obj: Any, name: str, text: str) -> Any:
    """The object with one more annotation."""
    annotations = {**obj.metadata.annotations, name: text}
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=annotations))
