"""kubeconfig files, read and merged as kubectl does, and checked before use.

The problem: client libraries report a broken kubeconfig as an AssertionError or a TypeError. The idea: every error is
one line that names file and field. Several files merge as in kubectl: the first to name a cluster, user,
context or current-context wins, and relative paths are relative to the file that holds them.
The result is a plain dict with absolute paths, for `plain_user` or, where there is a plugin, for kubernetes_asyncio.
"""

import base64
import binascii
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kscheduler.api.manifest_yaml import LOADER, load_document, problem_text
from kscheduler.client.access.kubeconfig_rules import check_cluster, check_user, kind_of, server_url, string
from kscheduler.client.access.proxies import Proxy
from kscheduler.client.errors import ConfigurationError

_LISTS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))
_CLUSTER_FILES = ("certificate-authority",)
_USER_FILES = ("client-certificate", "client-key", "tokenFile")
_DATA = ("certificate-authority-data", "client-certificate-data", "client-key-data")
_LARGEST_FILE = 4 * 1024 * 1024
_MAX_NESTED = 100
# libyaml's own words: it looks ahead, and may say so before we have counted.
_TOO_DEEP = "exceeded maximum nesting depth"


class KubeConfig(msgspec.Struct, frozen=True):
    """The merged files, and the cluster and user of the current context."""

    tree: dict[str, Any]
    context: str
    cluster: dict[str, Any]
    user: dict[str, Any]
    files: tuple[str, ...]
    cluster_place: str = ""
    """The cluster's place in its file, for messages: `kubeconfig FILE: clusters[0].cluster`."""
    cluster_name: str = ""
    user_place: str = ""
    """The user's place in its file; empty for a context without a user."""

    @property
    def server(self) -> str:
        """The API server's URL without a trailing slash."""
        return str(self.cluster["server"])

    @property
    def proxy(self) -> Proxy | None:
        """The proxy in front of the server that the kubeconfig names."""
        url = self.cluster.get("proxy-url")
        return Proxy(url, f"{self.cluster_place}.proxy-url") if url else None

    @property
    def exec_command(self) -> str:
        """The program of an exec plugin; empty where there is none."""
        plugin = self.user.get("exec")
        return str(plugin.get("command")) if isinstance(plugin, dict) else ""

    @property
    def namespace(self) -> str:
        """The namespace of the context; `default` where it names none."""
        named = (entry["context"].get("namespace") for entry in self.tree["contexts"] if entry["name"] == self.context)
        return str(next(named, None) or "default")


def read_kubeconfig(paths: Iterable[str], context: str = "", named_by: str = "") -> KubeConfig:
    """Read, merge and check; `context` overrides current-context. `named_by`: who names the files, for messages: a
    flag, a variable, a field. Raises `ConfigurationError`.
    """
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    origins: dict[tuple[str, str], str] = {}
    files = tuple(paths)
    for path in files:
        tree = _read(path, named_by)
        if tree is None and len(files) == 1:
            message = f"kubeconfig {path}: the file is empty"
            raise ConfigurationError(message)
        _merge(merged, tree or {}, path, origins)
    if context:
        merged["current-context"] = context
    return _select(merged, files, origins, chosen=bool(context))


def _read(path: str, named_by: str) -> dict[str, Any] | None:
    """The document of a file; `None`: it is empty, as one may be that kubectl is to write to."""
    file = Path(path).expanduser()
    try:
        with file.open("rb") as stream:
            body = stream.read(_LARGEST_FILE + 1)
    except OSError as error:
        message = f"kubeconfig {path}: {error.strerror or error}{f' ({named_by} names it)' if named_by else ''}"
        raise ConfigurationError(message) from None
    if len(body) > _LARGEST_FILE:
        message = f"kubeconfig {path}: larger than {_LARGEST_FILE} bytes, this is not a kubeconfig"
        raise ConfigurationError(message)
    return _parse(path, body)


def _parse(path: str, body: bytes) -> dict[str, Any] | None:
    try:
        _refuse_deep(body)
        tree = load_document(body)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        message = f"kubeconfig {path}: {_yaml_problem(error)}"
        raise ConfigurationError(message) from None
    if tree is None:
        return None
    if not isinstance(tree, dict):
        message = f"kubeconfig {path}: expected a mapping with clusters, users and contexts, found {kind_of(tree)}"
        raise ConfigurationError(message)
    kind = (tree.get("apiVersion") or "v1", tree.get("kind") or "Config")
    if kind != ("v1", "Config"):
        message = f"kubeconfig {path}: it is a {kind[1]} of {kind[0]}, not a Config of v1"
        raise ConfigurationError(message)
    return tree


def _refuse_deep(body: bytes) -> None:
    """Raises `ValueError` for what is nested too deep: libyaml's composer recurses in C, and would end the process."""
    depth = 0
    for event in yaml.parse(body, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MAX_NESTED:
            message = f"nested more than {_MAX_NESTED} deep"
            raise ValueError(message)


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = (problem_text(error) if isinstance(error, yaml.MarkedYAMLError) else str(error)).splitlines()[0]
    if problem == _TOO_DEEP:
        problem = f"nested more than {_MAX_NESTED} deep"
    return f"line {mark.line + 1}: {problem}" if mark is not None else f"not YAML: {problem}"


def _merge(merged: dict[str, Any], tree: dict[str, Any], path: str, origins: dict[tuple[str, str], str]) -> None:
    base = Path(path).expanduser().absolute().parent
    for plural, singular in _LISTS:
        for index, entry in enumerate(_entries(tree, plural, path)):
            where = f"kubeconfig {path}: {plural}[{index}]"
            name, value = _entry(entry, singular, where)
            if origins.get((plural, name), "").startswith(f"kubeconfig {path}: "):
                message = f"{where}.name: there are two {plural} {name!r}; the other is {origins[plural, name]}"
                raise ConfigurationError(message)
            if (plural, name) not in origins:
                origins[plural, name] = where
                merged[plural].append({"name": name, singular: _absolute(value, base, where)})
    current = tree.get("current-context")
    if current and "current-context" not in merged:
        merged["current-context"] = string(current, f"kubeconfig {path}: current-context")


def _entries(tree: dict[str, Any], plural: str, path: str) -> list[Any]:
    entries = tree.get(plural)
    if entries is None:
        return []
    if not isinstance(entries, list):
        message = f"kubeconfig {path}: {plural}: expected a list, found {kind_of(entries)}"
        raise ConfigurationError(message)
    return entries


def _entry(entry: Any, singular: str, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(entry, dict):
        message = f"{where}: expected a mapping, found {kind_of(entry)}"
        raise ConfigurationError(message)
    name = string(entry.get("name"), f"{where}.name")
    value = entry.get(singular)
    if value is None and singular == "user":
        value = {}
    if not isinstance(value, dict):
        message = f"{where}.{singular}: expected a mapping, found {kind_of(value)}"
        raise ConfigurationError(message)
    return name, value


def _absolute(value: dict[str, Any], base: Path, where: str) -> dict[str, Any]:
    """The entry with absolute paths; raises `ConfigurationError` if its inline data is not base64."""
    value = {key: child for key, child in value.items() if child is not None}
    for field in (*_CLUSTER_FILES, *_USER_FILES):
        if value.get(field, "") != "":
            value[field] = str(base / Path(string(value[field], f"{where}.{field}")).expanduser())
    for field in _DATA:
        if value.get(field):
            _check_base64(value[field], f"{where}.{field}")
    command = value.get("exec", {}).get("command") if isinstance(value.get("exec"), dict) else None
    if isinstance(command, str) and "/" in command:
        value["exec"] = {**value["exec"], "command": str(base / command)}
    return value


def _check_base64(value: Any, where: str) -> None:
    try:
        base64.b64decode(string(value, where), validate=True)
    except (binascii.Error, ValueError):
        message = f"{where}: not base64"
        raise ConfigurationError(message) from None


def _select(
    tree: dict[str, Any], files: tuple[str, ...], origins: dict[tuple[str, str], str], *, chosen: bool
) -> KubeConfig:
    """The cluster and user of the current context. `chosen`: the context came from an argument, not from the files."""
    named = f"kubeconfig {':'.join(files)}"
    current = tree.get("current-context")
    if not current:
        known = ", ".join(sorted(entry["name"] for entry in tree["contexts"])) or "none"
        message = f"{named}: current-context is not set: name one with --context (there are: {known})"
        raise ConfigurationError(message)
    requested = "--context" if chosen else "current-context"
    context = _find(tree, "contexts", current, f"{named}: {requested}")["context"]
    where = origins["contexts", current]
    cluster_name = string(context.get("cluster"), f"{where}.context.cluster")
    cluster = _find(tree, "clusters", cluster_name, f"{where}.context.cluster")["cluster"]
    of_cluster = f"{origins['clusters', cluster_name]}.cluster"
    cluster["server"] = server_url(string(cluster.get("server"), f"{of_cluster}.server"), f"{of_cluster}.server")
    user_name = context.get("user")
    user = _find(tree, "users", user_name, f"{where}.context.user")["user"] if user_name else {}
    of_user = f"{origins['users', user_name]}.user" if user_name else ""
    check_cluster(cluster, of_cluster)
    if user_name:
        check_user(user, of_user)
    return KubeConfig(tree, current, cluster, user, files, of_cluster, cluster_name, of_user)


def _find(tree: dict[str, Any], plural: str, name: Any, where: str) -> dict[str, Any]:
    for entry in tree[plural]:
        if entry["name"] == name:
            found: dict[str, Any] = entry
            return found
    known = ", ".join(sorted(entry["name"] for entry in tree[plural])) or "none"
    message = f"{where}: there is no entry {name!r} in {plural} (there are: {known})"
    raise ConfigurationError(message)
