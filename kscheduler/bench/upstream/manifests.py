"""Objects from scheduler_perf's template files, as the API server would show them.

A file is executed as a text template for each object, read as YAML, given the API server's defaults and decoded. Equal
texts are read once: only the name, the UID and what `finish` changes differ then.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kscheduler.api.codec import Decoder, UndecodableError
from kscheduler.api.defaults.objects import on_create
from kscheduler.api.groups import POD_GROUPS
from kscheduler.api.kinds import KINDS, Kind
from kscheduler.api.machinery.resources import KNOWN, ServedResource
from kscheduler.api.meta import KubeObject
from kscheduler.bench.template import Object, TemplateError, uid_of
from kscheduler.bench.upstream.text_template import TextTemplateError, execute, is_constant
from kscheduler.config.errors import ConfigError
from kscheduler.config.reading.yaml_tree import parse_yaml

# The version of Kubernetes whose defaults are filled in, and whose rules are followed.
VERSION: Final = "1.37"
_RELEASE: Final = f"v{VERSION}.0"
# Of all objects: which of them are older decides nothing here.
_CREATED: Final = "2026-11-21T00:00:00Z"

# Changes an object that is of nobody else: the object, its index, the values of its operation.
Finish = Callable[[Any, int, Mapping[str, str]], None]

_WATCHED: Final[Mapping[tuple[str, str], Kind]] = MappingProxyType(
    {(kind.group, kind.name): kind for kind in (*KINDS.values(), POD_GROUPS)}
)
SERVED: Final[Mapping[tuple[str, str], ServedResource]] = MappingProxyType(
    {(resource.group, resource.kind): resource for resource in reversed(KNOWN)}
)
"""By group and kind."""
# Versions of a group whose objects differ from those of the version that is watched.
_OTHER_SHAPES: Final = frozenset({"resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta1"})


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as a file has it, with the API server's defaults."""

    group: str
    kind: str
    name: str
    generate_name: str
    has_finalizers: bool
    labels: Mapping[str, str]
    text: bytes
    """As JSON."""

    @property
    def watched(self) -> Kind | None:
        """The kind, if the scheduler watches it."""
        return _WATCHED.get((self.group, self.kind))

    @property
    def is_namespaced(self) -> bool:
        """Whether its objects have namespaces."""
        return SERVED[self.group, self.kind].namespaced


@cache
def read_text(path: Path) -> str:
    """The text of a file. Raises `TemplateError`."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise TemplateError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TemplateError(f"{path}: is not UTF-8 text") from None


def read_object(where: str, text: str) -> Object:
    """An object with metadata and spec, as upstream's files have it. Raises `TemplateError`."""
    try:
        tree = parse_yaml(text.encode(), where)
    except ConfigError as error:
        raise TemplateError(str(error)) from None
    if not isinstance(tree, dict) or not isinstance(tree.get("apiVersion"), str):
        raise TemplateError(f"{where}: is not an object with apiVersion and kind")
    for part in ("metadata", "spec"):
        _part(tree, part, where)
    _lower_first_letters(tree)
    return tree


@lru_cache(maxsize=512)
def read_manifest(where: str, text: str) -> Manifest:
    """Raises `TemplateError` for a text that is no object, or of a kind that is not known."""
    tree = read_object(where, text)
    group_version, kind = tree["apiVersion"], tree.get("kind")
    group = group_version.rpartition("/")[0]
    resource = SERVED.get((group, str(kind)))
    if resource is None or group_version in _OTHER_SHAPES:
        raise TemplateError(f"{where}: the kind {kind} of {group_version} is not known")
    metadata = tree["metadata"]
    name, generate_name = metadata.get("name", ""), metadata.get("generateName", "")
    metadata["name"] = name or "name"
    metadata["creationTimestamp"] = _CREATED
    try:
        on_create(resource, tree, _RELEASE)
        encoded = msgspec.json.encode(tree)
        watched = _WATCHED.get((group, str(kind)))
        if watched is not None:
            _decoder(watched).decode(encoded)
    except (KeyError, TypeError, AttributeError, UndecodableError) as error:
        raise TemplateError(f"{where}: {error}") from None
    labels = metadata.get("labels") or {}
    return Manifest(
        group, str(kind), name, generate_name, bool(metadata.get("finalizers")), MappingProxyType(labels), encoded
    )


def _part(tree: Object, name: str, where: str) -> Object:
    part = tree.get(name)
    if part is None:
        part = tree[name] = {}
    if not isinstance(part, dict):
        raise TemplateError(f"{where}: {name}: is not an object")
    return part


def _lower_first_letters(tree: Object) -> None:
    """Go matches names of fields without regard to case, and an upstream file has some with a capital."""
    constraints = tree["spec"].get("topologySpreadConstraints")
    if isinstance(constraints, list):
        for constraint in constraints:
            for name in [name for name in constraint if name[:1].isupper()]:
                constraint[name[0].lower() + name[1:]] = constraint.pop(name)


@cache
def _decoder(kind: Kind) -> Decoder[KubeObject]:
    return Decoder(kind.type)


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """Objects from a template. Implements `ObjectTemplate`."""

    where: str
    """How errors name it."""
    text: str
    params: Mapping[str, Any] = field(default_factory=dict)
    count: int = 1
    number: int = 0
    """Of the operation: generated names differ by it."""
    name_as: str = ""
    """The name, if it is not in the template: with `{index}`, `{namespace}`, `{pod}`."""
    counts_in_set: bool = False
    """The index begins anew in each set of pods."""
    finish: tuple[Finish, ...] = ()

    @property
    def kind(self) -> Kind:
        """The kind of its objects. Raises `TemplateError` if the scheduler does not watch it."""
        kind = self.manifest(0).watched
        if kind is None:
            raise TemplateError(f"{self.where}: the scheduler does not watch {self.manifest(0).kind}")
        return kind

    def manifest(self, index: int) -> Manifest:
        """The object as it is before anything is changed. Raises `TemplateError`."""
        if is_constant(self.text):
            return read_manifest(self.where, self.text)
        try:
            text = execute(self.text, {**self.params, "Index": index, "Count": self.count})
        except TextTemplateError as error:
            raise TemplateError(f"{self.where}: {error}") from None
        return read_manifest(self.where, text)

    def make(self, values: Mapping[str, str]) -> Any:
        """An object of `kind.type`."""
        index = self._index(values)
        manifest = self.manifest(index)
        kind = manifest.watched
        assert kind is not None, manifest.kind  # noqa: S101 (checked when the operation was translated)
        made = _decoder(kind).decode(manifest.text)
        name = self.name(values)
        made.metadata = replace(
            made.metadata,
            name=name,
            namespace=values["namespace"] if kind.namespaced else "",
            uid=uid_of(kind, name, values),
            resource_version="1",
        )
        for finish in self.finish:
            finish(made, index, values)
        return made

    def name(self, values: Mapping[str, str]) -> str:
        """The object's name; a generated one has the numbers of its operation and of itself."""
        index = self._index(values)
        if self.name_as:
            return self.name_as.format(index=index, namespace=values["namespace"], pod=values.get("pod", ""))
        manifest = self.manifest(index)
        return manifest.name or f"{manifest.generate_name}{self.number}-{int(values['index']):05}"

    def uid(self, values: Mapping[str, str]) -> str:
        """The object's UID, the same in each run."""
        return uid_of(self.kind, self.name(values), values)

    def _index(self, values: Mapping[str, str]) -> int:
        return int(values["member" if self.counts_in_set else "index"])
