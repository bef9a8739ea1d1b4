"""kubeconfig files, read and merged as kubectl does, and checked before use.

The problem: client libraries report a broken kubeconfig as an AssertionError or a TypeError. The idea: every error is
one line that names file and field. Several files merge as in kubectl: the first to name a cluster, user,
context or current-context wins, and relative paths are relative to the file that holds them.
The result is a plain dict with absolute paths, for `plain_user` or, where there is a plugin, for kubernetes_asyncio.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kscheduler.api.manifest_yaml import LOADER, load_document
from kscheduler.client.errors import ConfigurationError

_LISTS = (("clusters", "cluster"), ("users", "user"), ("contexts", "context"))
_CLUSTER_FILES = ("certificate-authority",)
_USER_FILES = ("client-certificate", "client-key", "tokenFile")
_DATA = ("certificate-authority-data", "client-certificate-data", "client-key-data")
_LARGEST_FILE = 4 * 1024 * 1024
_MOST_NESTED = 100
_TOO_DEEP = "exceeded maximum nesting depth"
"""libyaml's own words: it looks ahead, and may say so before we have counted."""

_TEXTS = ("token", "username", "password")
_USER_INFO = re.compile(r"//[^/?#]*@")
_IDENTITY = ("client-certificate", "client-key")
_AUTHORITY = ("certificate-authority", "certificate-authority-data")


@dataclass(frozen=True, slots=True)
class KubeConfig:
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
        return str(self.cluster["server"]).rstrip("/")

    @property
    def proxy(self) -> str | None:
        """The HTTP proxy in front of the server."""
        return self.cluster.get("proxy-url") or None

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


def read_kubeconfig(paths: Iterable[str], context: str = "") -> KubeConfig:
    """Read, merge and check; `context` overrides current-context. Raises `ConfigurationError`."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    origins: dict[tuple[str, str], str] = {}
    files = tuple(paths)
    for path in files:
        _merge(merged, _read(path), path, origins)
    if context:
        merged["current-context"] = context
    return _select(merged, files, origins, chosen=bool(context))


def _read(path: str) -> dict[str, Any]:
    file = Path(path).expanduser()
    try:
        with file.open("rb") as stream:
            body = stream.read(_LARGEST_FILE + 1)
    except OSError as error:
        message = f"kubeconfig {path}: {error.strerror or error}"
        raise ConfigurationError(message) from None
    if len(body) > _LARGEST_FILE:
        message = f"kubeconfig {path}: larger than {_LARGEST_FILE} bytes, this is not a kubeconfig"
        raise ConfigurationError(message)
    return _parse(path, body)


def _parse(path: str, body: bytes) -> dict[str, Any]:
    try:
        _refuse_deep(body)
        tree = load_document(body)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        message = f"kubeconfig {path}: {_yaml_problem(error)}"
        raise ConfigurationError(message) from None
    if tree is None:
        message = f"kubeconfig {path}: the file is empty"
        raise ConfigurationError(message)
    if not isinstance(tree, dict):
        message = f"kubeconfig {path}: expected a mapping with clusters, users and contexts, found {_kind(tree)}"
        raise ConfigurationError(message)
    return tree


def _refuse_deep(body: bytes) -> None:
    """Raises `ValueError` for what is nested too deep: libyaml's composer recurses in C, and would end the process."""
    depth = 0
    for event in yaml.parse(body, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _MOST_NESTED:
            message = f"nested more than {_MOST_NESTED} deep"
            raise ValueError(message)


def _yaml_problem(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or error).splitlines()[0]
    if problem == _TOO_DEEP:
        problem = f"nested more than {_MOST_NESTED} deep"
    return f"line {mark.line + 1}: {problem}" if mark is not None else f"not YAML: {problem}"


def _merge(merged: dict[str, Any], tree: dict[str, Any], path: str, origins: dict[tuple[str, str], str]) -> None:
    base = Path(path).expanduser().absolute().parent
    for plural, singular in _LISTS:
        for index, entry in enumerate(_entries(tree, plural, path)):
            where = f"kubeconfig {path}: {plural}[{index}]"
            name, value = _entry(entry, singular, where)
            if (plural, name) not in origins:
                origins[plural, name] = where
                merged[plural].append({"name": name, singular: _absolute(value, base, where)})
    current = tree.get("current-context")
    if current and "current-context" not in merged:
        merged["current-context"] = _string(current, f"kubeconfig {path}: current-context")


def _entries(tree: dict[str, Any], plural: str, path: str) -> list[Any]:
    entries = tree.get(plural)
    if entries is None:
        return []
    if not isinstance(entries, list):
        message = f"kubeconfig {path}: {plural}: expected a list, found {_kind(entries)}"
        raise ConfigurationError(message)
    return entries


def _entry(entry: Any, singular: str, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(entry, dict):
        message = f"{where}: expected a mapping, found {_kind(entry)}"
        raise ConfigurationError(message)
    name = _string(entry.get("name"), f"{where}.name")
    value = entry.get(singular)
    if value is None and singular == "user":
        value = {}
    if not isinstance(value, dict):
        message = f"{where}.{singular}: expected a mapping, found {_kind(value)}"
        raise ConfigurationError(message)
    return name, value


def _absolute(value: dict[str, Any], base: Path, where: str) -> dict[str, Any]:
    """The entry with absolute paths; raises `ConfigurationError` if its inline data is not base64."""
    value = {key: child for key, child in value.items() if child is not None}
    for field in (*_CLUSTER_FILES, *_USER_FILES):
        if value.get(field, "") != "":
            value[field] = str(base / Path(_string(value[field], f"{where}.{field}")).expanduser())
    for field in _DATA:
        if value.get(field):
            _check_base64(value[field], f"{where}.{field}")
    command = value.get("exec", {}).get("command") if isinstance(value.get("exec"), dict) else None
    if isinstance(command, str) and "/" in command:
        value["exec"] = {**value["exec"], "command": str(base / command)}
    return value


def _check_base64(value: Any, where: str) -> None:
    try:
        base64.b64decode(_string(value, where), validate=True)
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
    cluster_name = _string(context.get("cluster"), f"{where}.context.cluster")
    cluster = _find(tree, "clusters", cluster_name, f"{where}.context.cluster")["cluster"]
    _check_server(cluster, f"{origins['clusters', cluster_name]}.cluster")
    user_name = context.get("user")
    user = _find(tree, "users", user_name, f"{where}.context.user")["user"] if user_name else {}
    _check_cluster(cluster, f"{origins['clusters', cluster_name]}.cluster")
    if user_name:
        _check_user(user, f"{origins['users', user_name]}.user")
    for field in (*_CLUSTER_FILES, *_USER_FILES):
        origin = origins["clusters", cluster_name] if field in _CLUSTER_FILES else origins.get(("users", user_name), "")
        _check_file(cluster if field in _CLUSTER_FILES else user, field, origin)
    of_user = f"{origins['users', user_name]}.user" if user_name else ""
    of_cluster = f"{origins['clusters', cluster_name]}.cluster"
    return KubeConfig(tree, current, cluster, user, files, of_cluster, cluster_name, of_user)


def _find(tree: dict[str, Any], plural: str, name: Any, where: str) -> dict[str, Any]:
    for entry in tree[plural]:
        if entry["name"] == name:
            found: dict[str, Any] = entry
            return found
    known = ", ".join(sorted(entry["name"] for entry in tree[plural])) or "none"
    message = f"{where}: there is no entry {name!r} in {plural} (there are: {known})"
    raise ConfigurationError(message)


def _check_cluster(cluster: dict[str, Any], where: str) -> None:
    """Check settings that the library would fail on or misread."""
    skips = cluster.get("insecure-skip-tls-verify", False)
    if not isinstance(skips, bool):
        message = f"{where}.insecure-skip-tls-verify: expected true or false, found {_kind(skips)}"
        raise ConfigurationError(message)
    _check_given_once(cluster, "certificate-authority", where)
    if cluster.get("tls-server-name", "") != "":
        _string(cluster["tls-server-name"], f"{where}.tls-server-name")
    if cluster.get("proxy-url", "") != "":
        _check_proxy(_string(cluster["proxy-url"], f"{where}.proxy-url"), f"{where}.proxy-url")


def _check_given_once(entry: dict[str, Any], field: str, where: str) -> None:
    """As client-go: of a file and inline data one would be ignored, and nobody knows which was meant."""
    if entry.get(field) and entry.get(f"{field}-data"):
        message = f"{where}: {field} and {field}-data are both given: remove one of the two"
        raise ConfigurationError(message)


def check_verification(config: KubeConfig) -> None:
    """As client-go, where TLS is spoken: an authority that verifies nothing is an error, not a wish that is ignored."""
    named = [field for field in _AUTHORITY if config.cluster.get(field)]
    if named and config.cluster.get("insecure-skip-tls-verify"):
        message = (
            f"{config.cluster_place}.insecure-skip-tls-verify: true beside {named[0]} (cluster "
            f"{config.cluster_name!r}): specifying a root certificates file with the insecure flag is not allowed: "
            "nothing would be verified; remove one of the two"
        )
        raise ConfigurationError(message)


def _check_proxy(url: str, where: str) -> None:
    if url.startswith("socks5"):
        message = (
            f"{where}: {_USER_INFO.sub('//...@', url)!r}: SOCKS proxies are not supported, only http and https ones"
        )
        raise ConfigurationError(message)
    check_url(url, where)


def _check_user(user: dict[str, Any], where: str) -> None:
    """Check that each kind of credentials is complete."""
    for field in _TEXTS:
        if user.get(field, "") != "":
            _check_secret(field, _string(user[field], f"{where}.{field}"), f"{where}.{field}")
    certificate, key = (bool(user.get(field) or user.get(f"{field}-data")) for field in _IDENTITY)
    if certificate != key:
        present, absent = _IDENTITY if certificate else _IDENTITY[::-1]
        message = f"{where}.{present}: there is no {absent} or {absent}-data beside it"
        raise ConfigurationError(message)
    for field in _IDENTITY:
        _check_given_once(user, field, where)
    if user.get("token") and (user.get("username") or user.get("password")):
        message = f"{where}: a token and a username or password: who is it? only one of the two is allowed"
        raise ConfigurationError(message)
    if user.get("exec") and user.get("auth-provider"):
        message = f"{where}: exec and auth-provider: only one of the two is allowed"
        raise ConfigurationError(message)
    for field, needed in (("exec", ("apiVersion", "command")), ("auth-provider", ("name",))):
        if field in user:
            _check_provider(user[field], f"{where}.{field}", needed)


def _check_secret(field: str, value: str, where: str) -> None:
    """Check that a header can carry the value, which messages never show. (A password is sent base64-encoded.)"""
    fault = token_fault(value.strip()) if field == "token" else _control_fault(value)
    if fault:
        message = f"{where}: {fault}"
        raise ConfigurationError(message)


def token_fault(token: str) -> str:
    """Why a header cannot carry this token, without showing it; empty if it can."""
    if any(character.isspace() for character in token):
        return "a token has no spaces or line ends"
    return _control_fault(token) or ("" if token.isascii() else "a token is ASCII text")


def _control_fault(text: str) -> str:
    sound = all(character.isprintable() for character in text)
    return "" if sound else "there is a line end or another control character in it"


def _check_provider(provider: Any, where: str, needed: tuple[str, ...]) -> None:
    """Check a plugin's settings: a mapping with the `needed` strings."""
    if not isinstance(provider, dict):
        message = f"{where}: expected a mapping, found {_kind(provider)}"
        raise ConfigurationError(message)
    for field in needed:
        _string(provider.get(field), f"{where}.{field}")


def _check_server(cluster: dict[str, Any], where: str) -> None:
    check_server_url(_string(cluster.get("server"), f"{where}.server"), f"{where}.server")


def check_server_url(url: str, where: str) -> None:
    """As `check_url`, and without user and password, which would conflict with the user's Authorization header."""
    check_url(url, where)
    if "@" in urlsplit(url).netloc:
        message = f"{where}: there is a user or a password in the URL: set username and password of the user instead"
        raise ConfigurationError(message)


def check_url(url: str, where: str) -> None:
    """Raises `ConfigurationError` unless `url` is http or https with a host and no query. Shows no password."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        sound = sound and not any(character.isspace() or not character.isprintable() for character in url)
        _ = parts.port
    except ValueError:
        sound = False
    if not sound:
        message = f"{where}: {_USER_INFO.sub('//...@', url)!r} is not a URL like https://host:6443"
        raise ConfigurationError(message)


def _check_file(entry: dict[str, Any], field: str, where: str) -> None:
    """A named file must be readable, unless inline data replaces it."""
    path = entry.get(field)
    if not path or entry.get(f"{field}-data"):
        return
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        message = f"{where}: {field}: {path}: {error.strerror or error}"
        raise ConfigurationError(message) from None


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value:
        found = "it is missing" if value in (None, "") else f"found {_kind(value)}"
        message = f"{where}: expected a string, {found}"
        raise ConfigurationError(message)
    return value


def _kind(value: Any) -> str:
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"the value {value}")
