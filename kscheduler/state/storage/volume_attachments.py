"""The attachments reported by the attach controller, by node and by volume."""

from collections.abc import Iterator

from kscheduler.api.storage import VolumeAttachment
from kscheduler.state.storage.name_index import Names, file, unfile


class VolumeAttachments:
    """The VolumeAttachments that the watch last showed."""

    def __init__(self) -> None:
        self._attachments: dict[str, VolumeAttachment] = {}
        self._by_node: Names = {}
        self._by_volume: Names = {}

    def put(self, attachment: VolumeAttachment) -> VolumeAttachment | None:
        """Add or update an attachment; returns its previous version, if there was one."""
        before = self.remove(attachment.key)
        self._attachments[attachment.key] = attachment
        file(self._by_node, attachment.spec.node_name, attachment.key)
        file(self._by_volume, _volume(attachment), attachment.key)
        return before

    def remove(self, name: str) -> VolumeAttachment | None:
        """Remove an attachment; returns it, if it was there."""
        before = self._attachments.pop(name, None)
        if before is not None:
            unfile(self._by_node, before.spec.node_name, name)
            unfile(self._by_volume, _volume(before), name)
        return before

    def get(self, name: str) -> VolumeAttachment | None:
        """An attachment."""
        return self._attachments.get(name)

    def is_any_on(self, node_name: str) -> bool:
        """Whether any volume is attached to the node."""
        return node_name in self._by_node

    def on(self, node_name: str) -> Iterator[VolumeAttachment]:
        """The attachments of a node."""
        return (self._attachments[name] for name in self._by_node.get(node_name, ()))

    def nodes_of(self, volume_name: str) -> Iterator[str]:
        """The names of the nodes to which a volume is attached."""
        return (self._attachments[name].spec.node_name for name in self._by_volume.get(volume_name, ()))


def _volume(attachment: VolumeAttachment) -> str:
    return attachment.spec.source.persistent_volume_name or ""
