"""Templates: thousands of objects from text with placeholders.

A template is rendered as text and decoded as a watch would be, so objects share parts only as far as in the service.
Placeholders may be in any string:

    $index    0, 1, 2 ... over all objects of one operation
    $set      the number of the group (such as a Deployment's pods)
    $member   0, 1, 2 ... within the group
    $node     the name of a node
    $pod, $poduid    the pod that a companion is created for
    $name, $namespace, $uid    the object's own
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol

import msgspec

from kscheduler.api.codec import Decoder, UndecodableError
from kscheduler.api.kinds import Kind
from kscheduler.api.meta import KubeObject

Object = dict[str, Any]

_PLACEHOLDER: Final = re.compile(r"\$([a-z]+)")
_KNOWN: Final = frozenset({"index", "set", "member", "node", "pod", "poduid", "name", "namespace", "uid"})


class TemplateError(ValueError):
    """A scenario cannot be played; the message names the part and what is wrong with it."""


class ObjectTemplate(Protocol):
    """Where objects of one kind come from. What is asked for with the same values is the same object."""

    @property
    def kind(self) -> Kind:
        """The kind of the objects."""
        ...

    def make(self, values: Mapping[str, str]) -> Any:
        """An object of `kind.type`. `values`: all that the object does not name itself, without the dollar."""
        ...

    def uid(self, values: Mapping[str, str]) -> str:
        """The object's UID, the same in each run."""
        ...

    def name(self, values: Mapping[str, str]) -> str:
        """The object's name."""
        ...


@dataclass(frozen=True, slots=True)
class Template:
    """A template of objects of one kind. Implements `ObjectTemplate`."""

    kind: Kind
    prefix: str
    """The name; if it ends in a dash, a number is appended."""
    text: str
    """JSON with placeholders."""

    def make(self, values: Mapping[str, str]) -> Any:
        """An object of `kind.type`. `values`: all that the object does not name itself, without the dollar."""
        known = {**values, "name": self.name(values), "uid": self.uid(values)}
        return _decoder(self.kind.type).decode(_PLACEHOLDER.sub(lambda found: known[found[1]], self.text))

    def uid(self, values: Mapping[str, str]) -> str:
        """The object's UID, the same in each run."""
        return uid_of(self.kind, self.name(values), values)

    def name(self, values: Mapping[str, str]) -> str:
        """The object's name, with a number if the prefix ends in a dash."""
        name = _PLACEHOLDER.sub(lambda found: values[found[1]], self.prefix)
        return f"{name}{int(values['index']):05}" if name.endswith("-") else name


def uid_of(kind: Kind, name: str, values: Mapping[str, str]) -> str:
    """The UID of an object of this name, the same in each run."""
    crc = zlib.crc32(f"{kind.plural}/{values['namespace']}/{name}".encode())
    return f"{crc:08x}-0000-4000-8000-{int(values['index']):012}"


@cache
def _decoder(kind: type[KubeObject]) -> Decoder[KubeObject]:
    return Decoder(kind)


def template(kind: Kind, prefix: str, tree: Object) -> Template:
    """A template from an object without name, namespace and UID. Raises `TemplateError`."""
    metadata: Object = {"name": "$name", "uid": "$uid", "resourceVersion": "1", **tree.get("metadata", {})}
    if kind.namespaced:
        metadata["namespace"] = "$namespace"
    text = msgspec.json.encode({**tree, "metadata": metadata}).decode()
    unknown = sorted(set(_PLACEHOLDER.findall(text + prefix)) - _KNOWN)
    if unknown:
        raise TemplateError(f"{kind.name} {prefix}: unknown placeholder ${unknown[0]}")
    made = Template(kind, prefix, text)
    try:
        values = {"index": "0", "set": "0", "member": "0", "node": "node-00000", "namespace": "default"}
        made.make(values | {"pod": "pod-00000", "poduid": "0"})
    except UndecodableError as error:
        raise TemplateError(f"{kind.name} {prefix}: {error}") from None
    return made
