"""Objects with pseudonyms, by the types of their fields.

Each type is looked at once, and a function is made for each of its fields. A string is hashed unless its field is
among those that stay; labels and annotations keep their keys, resources keep their names and amounts. A type that is
not understood is an error when it is first met, and a test meets all of them.
"""

import base64
import re
import types
from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, Final, Union, get_args, get_origin

import msgspec

from kscheduler.api.core import (
    ContainerExtendedResourceRequest,
    ContainerImage,
    LabelSelectorRequirement,
    NodeSelectorRequirement,
    PodSchedulingGate,
    RBDSource,
)
from kscheduler.api.devices import (
    CounterSet,
    Device,
    DeviceClass,
    DeviceDerivedAttribute,
    DeviceRequest,
    DeviceSubRequest,
)
from kscheduler.api.groups import NetworkTopology
from kscheduler.api.meta import Condition
from kscheduler.api.selectors import is_label_value
from kscheduler.api.storage import (
    MIGRATED_PLUGINS,
    CSIDriver,
    CSINodeDriver,
    TopologySelectorLabelRequirement,
)
from kscheduler.api.well_known import SCHEDULER_NAME_ANNOTATION
from kscheduler.framework.cluster.topology_request import ANNOTATIONS as TOPOLOGY_ANNOTATIONS
from kscheduler.framework.pods.pod_info import normalized_image_name

# Pseudonyms: a keyed hash for each name.
#
#     web-1                    h3v7k2q9xw4ma      equal names are equal everywhere: a node, its label, a selector
#     default/web-1            each part of its own, so that the key of an object is made of its namespace and its name
#     north__south             likewise: the zones of a volume
#     europe-west4-b           likewise, at the dashes: the region of a Google zone is its first two parts
#     42, -3, 0.25, true       stay: Gt and Lt compare numbers, a price is one; so does a name that is only a number
#     pvc-<UUID>               stays: a provisioner has made it up, and it says nothing
#
# Anyone who has a recording and no key cannot tell a name by trying names out. Lengths and shapes of names are gone,
# too.

# Names whose pseudonyms are kept, so that a name is hashed once in a while and not at each update.
MAX_KNOWN: Final = 65_536

_STAYS: Final = re.compile(
    r"[+-]?[0-9]+(\.[0-9]+)?|true|false|pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|local-pv-[0-9a-f]+"
)
_ZONE_OF_GOOGLE: Final = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")
_HANDLE_WORDS: Final = frozenset(("", "aws:", "projects", "zones", "regions", "disks", "UNSPECIFIED"))
_DIGEST_BYTES: Final = 10
_NUMBER: Final = re.compile(r"[0-9]+(/[0-9]+)?")
_BREAKS: Final = re.compile(r"[\s,;:()\[\]{}\"'=]+")


class Pseudonyms:
    """Of one key."""

    def __init__(self, key: bytes) -> None:
        """`key`: any bytes, the more random the better."""
        self._key = blake2b(key, digest_size=32).digest()
        self.text: Callable[[str], str] = lru_cache(MAX_KNOWN)(self._text)
        """Of any name, or several with slashes between them."""

    def label(self, value: str) -> str:
        """A label's value in a selector: what no label can be stays what no label can be, and matches nothing."""
        found = self.text(value)
        if found == value:
            return value
        if is_label_value(value):
            return found if is_label_value(found) else self._hashed(value)
        return f"{found}!"

    def image(self, name: str) -> str:
        """With a tag, so that it is not added a second time."""
        return f"{self._hashed(normalized_image_name(name))}:h" if name else name

    def disk(self, handle: str) -> str:
        """A disk's name at its provider, in which volumes of old in-tree drivers have their zone."""
        return "/".join(
            part
            if part in _HANDLE_WORDS
            else f"vol-{self._hashed(part[4:])}"
            if part.startswith("vol-")
            else self.text(part)
            for part in handle.split("/")
        )

    def _text(self, text: str) -> str:
        for separator in ("/", "__"):
            if separator in text:
                return separator.join(self._text(part) for part in text.split(separator))
        if not text or _STAYS.fullmatch(text):
            return text
        if _ZONE_OF_GOOGLE.fullmatch(text):
            return "-".join(self._hashed(part) for part in text.split("-"))
        return self._hashed(text)

    def _hashed(self, text: str) -> str:
        digest = blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=_DIGEST_BYTES).digest()
        return "h" + base64.b32encode(digest).decode().lower()


def numbers_in(message: str) -> str:
    """What is left of a message: its numbers, ascending. Names are gone, and so is their order.

    `0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had taint {a: b}.` becomes `0/5 2 3`.
    """
    words = (word.rstrip(".") for word in _BREAKS.split(message))
    return " ".join(sorted(word for word in words if _NUMBER.fullmatch(word)))


# From a value to what is written of it.
Change = Callable[[Any], Any]

_STAYING: Final = (
    # what is no name
    "uid resource_version creation_timestamp deletion_timestamp start_time last_probe_time last_transition_time "
    "time_added allocation_timestamp share_id api_version api_group kind resource type phase reason action "
    # words of the API
    "operator effect protocol host_ip preemption_policy restart_policy when_unsatisfiable node_affinity_policy "
    "node_taints_policy access_modes volume_mode volume_binding_mode allocation_mode source bind_mount_options "
    "key_type declared_features disable_resize_preemption skip_node_operations "
    # keys of labels and taints
    "key topology_key match_label_keys mismatch_label_keys node_label "
    # what the configuration names, and whom drivers and devices are known by: CEL reads them
    "scheduler_name priority_class_name driver provisioner attacher resource_name extended_resource_name "
    "device_class_name expression match_attribute distinct_attribute string_value version_value string_values "
    "version_values device request requests request_name binding_conditions binding_failure_conditions counter_set "
    "compatibility_groups capacity_key partition_type_attribute"
)
# Fields of any type, strings or tuples of strings, that are written as they are.
STAY: Final = frozenset(_STAYING.split())
# The same, where other types have names in a field of this name.
STAY_OF: Final = frozenset(
    (
        (Condition, "status"),
        (ContainerExtendedResourceRequest, "request_name"),
        (CounterSet, "name"),
        (CSINodeDriver, "name"),
        (Device, "name"),
        (DeviceDerivedAttribute, "name"),
        (DeviceRequest, "name"),
        (DeviceSubRequest, "name"),
        (NetworkTopology, "mode"),
        (PodSchedulingGate, "name"),
    )
)
# Kinds whose objects keep their names: a driver's name, and one that is part of a resource's name.
NAMED_BY_USE: Final = (CSIDriver, DeviceClass)
_MESSAGES: Final = frozenset(((Condition, "message"),))
_OF_LABELS: Final = (LabelSelectorRequirement, NodeSelectorRequirement, TopologySelectorLabelRequirement)
_LABELS: Final = frozenset(("labels", "match_labels", "node_selector", "selector"))
_DISKS: Final = frozenset(("volume_id", "volume_handle", "disk_uri", "pd_name"))
_IMAGES: Final = frozenset(((ContainerImage, "names"),))
# Among them those that ask for a topology: their values are keys of labels, and numbers.
_KEPT_ANNOTATIONS: Final = frozenset((MIGRATED_PLUGINS, SCHEDULER_NAME_ANNOTATION, *TOPOLOGY_ANNOTATIONS))
_NUMBERS: Final = (int, bool, float)


class ObjectRedaction:
    """Of one key."""

    def __init__(self, names: Pseudonyms) -> None:
        self._names = names
        self._known: dict[type, dict[str, Change]] = {}
        """By type, what becomes of each field that does not stay. As many as there are types."""

    def redacted(self, value: Any) -> Any:
        """A struct of `kscheduler.api` with pseudonyms. Raises `TypeError` for a type that is not understood."""
        changed = {name: change(getattr(value, name)) for name, change in self.changes(type(value)).items()}
        if isinstance(value, NAMED_BY_USE):
            changed["metadata"].name = value.metadata.name
        return msgspec.structs.replace(value, **changed) if changed else value

    def changes(self, of: type) -> dict[str, Change]:
        known = self._known.get(of)
        if known is None:
            known = self._known[of] = {}
            for field in msgspec.structs.fields(of):
                change = self._change(of, field.name, field.type)
                if change is not None:
                    known[field.name] = change
        return known

    def _change(self, owner: type, field: str, hint: Any) -> Change | None:
        """What becomes of a field's value; `None`: it stays."""
        origin, inner = get_origin(hint), get_args(hint)
        if origin in (Union, types.UnionType):
            given = [each for each in inner if each is not type(None)]
            if any(each in _NUMBERS for each in given):
                return None  # a quantity
            change = self._change(owner, field, given[0])
            return None if change is None else partial(_unless_none, change)
        if hint in _NUMBERS:
            return None
        if hint is str:
            return self._of_string(owner, field)
        if hint is Any:
            return _nothing  # parameters for a driver
        if origin is tuple:
            element = self._change(owner, field, inner[0])
            return None if element is None else partial(_each, element)
        if origin is dict:
            return self._of_dict(owner, field, inner[1])
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self.redacted if self.changes(hint) else None
        raise TypeError(f"{owner.__name__}.{field}: it is not known what to hash in a {hint}")

    def _of_string(self, owner: type, field: str) -> Change | None:
        names = self._names
        if field in STAY or (owner, field) in STAY_OF:
            return None
        if (owner, field) in _MESSAGES:
            return _empty
        if field in _DISKS:
            return names.disk
        if (owner, field) in _IMAGES or field == "reference" or (field == "image" and owner is not RBDSource):
            return names.image
        return names.label if issubclass(owner, _OF_LABELS) else names.text

    def _of_dict(self, owner: type, field: str, value: Any) -> Change | None:
        names = self._names
        if field in _LABELS:
            of_selector = field != "labels"
            return partial(_values, names.label if of_selector else names.text)
        if field == "annotations":
            return self._annotations
        if value is Any:
            return self._tree
        element = self._change(owner, field, value)
        return None if element is None else partial(_values, element)

    def _annotations(self, found: dict[str, str]) -> dict[str, str]:
        return {key: value if key in _KEPT_ANNOTATIONS else self._names.text(value) for key, value in found.items()}

    def _tree(self, value: Any) -> Any:
        """What has no type: objects of kinds that only plugins know, and names of evicted pods in budgets."""
        if isinstance(value, str):
            return self._names.text(value)
        if isinstance(value, dict):
            return {self._names.text(key): self._tree(each) for key, each in value.items()}
        return [self._tree(each) for each in value] if isinstance(value, list) else value


def _unless_none(change: Change, value: Any) -> Any:
    return None if value is None else change(value)


def _each(change: Change, values: Any) -> tuple[Any, ...]:
    return tuple([change(value) for value in values])


def _values(change: Change, found: dict[str, Any]) -> dict[str, Any]:
    return {key: change(value) for key, value in found.items()}


def _nothing(_value: Any) -> None:
    return None


def _empty(_value: str) -> str:
    return ""
