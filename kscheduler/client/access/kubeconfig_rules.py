"""What client-go refuses in a kubeconfig's cluster and user, and which of several credentials it uses.

The rules are those of `tools/clientcmd/validation.go`, `transport` and `plugin/pkg/client/auth/exec` in client-go; the
table in tests/client/kubeconfig_cases.py has one row each, which the end-to-end suite asks the real kubectl, too. Every
refusal is one `ConfigurationError` in one line that names file and field, and shows no secret. Where we refuse what
client-go takes, the value could not be used (a token with a line end), or somebody would be surprised (a password in
the server's URL); docs/differences.md says so.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from kscheduler.client.access.proxies import checked_proxy_url, without_user
from kscheduler.client.errors import ConfigurationError

UserKind = Literal["plain", "exec", "auth-provider"]

EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1beta1", "client.authentication.k8s.io/v1")
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
_TEXTS: Final = ("token", "username", "password", "as", "as-uid")
_IDENTITY: Final = ("client-certificate", "client-key")
_AUTHORITY: Final = ("certificate-authority", "certificate-authority-data")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def kind_of_user(user: Mapping[str, Any]) -> UserKind:
    """Where a user's credentials come from: what stands in the file goes before a plugin, which is not run then.

    A client certificate stands in an exec plugin's way too, as it would be presented in its place; a provider's token
    goes beside one.
    """
    has_header = any(user.get(field) for field in ("token", "tokenFile", "username"))
    if user.get("exec") and not has_header and not has_certificate(user):
        return "exec"
    return "auth-provider" if user.get("auth-provider") and not has_header else "plain"


def has_certificate(user: Mapping[str, Any]) -> bool:
    """Whether the user has a client certificate in the file; a key alone is passed over."""
    return bool(user.get("client-certificate") or user.get("client-certificate-data"))


def check_cluster(cluster: dict[str, Any], where: str) -> None:
    """Check all but what depends on whether TLS is spoken. A proxy's scheme is put in small letters."""
    skips = cluster.get("insecure-skip-tls-verify", False)
    if not isinstance(skips, bool):
        message = f"{where}.insecure-skip-tls-verify: expected true or false, found {kind_of(skips)}"
        raise ConfigurationError(message)
    _check_given_once(cluster, "certificate-authority", where)
    if cluster.get("tls-server-name", "") != "":
        string(cluster["tls-server-name"], f"{where}.tls-server-name")
    if cluster.get("proxy-url", "") != "":
        place = f"{where}.proxy-url"
        cluster["proxy-url"] = checked_proxy_url(string(cluster["proxy-url"], place), place)
    check_file(cluster, "certificate-authority", where)


def check_verification(cluster: Mapping[str, Any], name: str, where: str) -> None:
    """Where TLS is spoken an authority that verifies nothing is an error, not a wish that is ignored."""
    named = [field for field in _AUTHORITY if cluster.get(field)]
    if named and cluster.get("insecure-skip-tls-verify"):
        message = (
            f"{where}.insecure-skip-tls-verify: true beside {named[0]} (cluster {name!r}): specifying a root "
            "certificates file with the insecure flag is not allowed: nothing would be verified; remove one of the two"
        )
        raise ConfigurationError(message)


def check_user(user: dict[str, Any], where: str) -> None:
    """Check that each kind of credentials is complete, and that they do not contradict each other."""
    for field in _TEXTS:
        if user.get(field, "") != "":
            _check_secret(field, string(user[field], f"{where}.{field}"), f"{where}.{field}")
    _check_one_header(user, where)
    if has_certificate(user):
        if not (user.get("client-key") or user.get("client-key-data")):
            message = f"{where}.client-certificate: there is no client-key or client-key-data beside it"
            raise ConfigurationError(message)
        for field in _IDENTITY:
            _check_given_once(user, field, where)
            check_file(user, field, where)
    check_file(user, "tokenFile", where)
    if user.get("exec") and user.get("auth-provider"):
        message = f"{where}: exec and auth-provider: only one of the two is allowed"
        raise ConfigurationError(message)
    if "exec" in user:
        _check_exec(_mapping(user["exec"], f"{where}.exec"), f"{where}.exec")
    if "auth-provider" in user:
        provider = _mapping(user["auth-provider"], f"{where}.auth-provider")
        string(provider.get("name"), f"{where}.auth-provider.name")
    _check_impersonation(user, where)


def _check_one_header(user: Mapping[str, Any], where: str) -> None:
    """A request has one Authorization header. (A password alone says nothing of anybody, and is not sent.)"""
    if (user.get("token") and (user.get("username") or user.get("password"))) or (
        user.get("tokenFile") and user.get("username")
    ):
        message = f"{where}: a token and a username or password: who is it? only one of the two is allowed"
        raise ConfigurationError(message)


def _check_exec(plugin: Mapping[str, Any], where: str) -> None:
    version = string(plugin.get("apiVersion"), f"{where}.apiVersion")
    string(plugin.get("command"), f"{where}.command")
    if version not in EXEC_VERSIONS:
        message = f"{where}.apiVersion: {version!r} is none of {', '.join(EXEC_VERSIONS)}"
        raise ConfigurationError(message)
    for field in ("args", "env"):
        if not isinstance(plugin.get(field) or [], list):
            message = f"{where}.{field}: expected a list, found {kind_of(plugin[field])}"
            raise ConfigurationError(message)
    for index, entry in enumerate(plugin.get("env") or []):
        string(_mapping(entry, f"{where}.env[{index}]").get("name"), f"{where}.env[{index}].name")
    mode = plugin.get("interactiveMode")
    if not mode and version.endswith("/v1"):  # v1beta1 has the default IfAvailable
        message = f"{where}.interactiveMode: it is missing; one of {', '.join(_INTERACTIVE_MODES)}"
        raise ConfigurationError(message)
    if mode and mode not in _INTERACTIVE_MODES:
        message = f"{where}.interactiveMode: {mode!r} is none of {', '.join(_INTERACTIVE_MODES)}"
        raise ConfigurationError(message)


def _check_impersonation(user: Mapping[str, Any], where: str) -> None:
    groups, extra = user.get("as-groups") or [], user.get("as-user-extra") or {}
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        message = f"{where}.as-groups: expected a list of strings"
        raise ConfigurationError(message)
    if not isinstance(extra, dict) or not all(
        isinstance(key, str) and isinstance(values, list) and all(isinstance(value, str) for value in values)
        for key, values in extra.items()
    ):
        message = f"{where}.as-user-extra: expected a mapping to lists of strings"
        raise ConfigurationError(message)
    if (user.get("as-uid") or groups or extra) and not user.get("as"):
        message = f"{where}: as-uid, as-groups and as-user-extra need a user to impersonate: as is missing"
        raise ConfigurationError(message)
    for value in (*groups, *(value for values in extra.values() for value in values)):
        if fault := _control_fault(value) or ("" if value.isascii() else "a header is ASCII text"):
            message = f"{where}: a group or an extra value to impersonate: {fault}"
            raise ConfigurationError(message)


def _check_secret(field: str, value: str, where: str) -> None:
    """Check that a header can carry the value, which messages never show. (A password is sent base64-encoded.)"""
    fault = token_fault(value.strip()) if field == "token" else _control_fault(value)
    if not fault and field.startswith("as") and not value.isascii():
        fault = "a header is ASCII text"
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


def _check_given_once(entry: Mapping[str, Any], field: str, where: str) -> None:
    """Of a file and inline data one would be ignored, and nobody knows which was meant."""
    if entry.get(field) and entry.get(f"{field}-data"):
        message = f"{where}: {field} and {field}-data are both given: remove one of the two"
        raise ConfigurationError(message)


def server_url(url: str, where: str) -> str:
    """The API server's URL as it is used: a scheme in small letters, http where there is none, no slash at the end.

    Raises `ConfigurationError` unless it is http or https with a host, and no query, user or password: the latter
    would conflict with the user's Authorization header. Shows no password.
    """
    whole = url if _SCHEME.match(url) else f"http://{url}"
    try:
        parts = urlsplit(whole)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
        sound = sound and (whole is url or parts.path in ("", "/"))  # `host/path` could mean anything
        sound = sound and not any(character.isspace() or not character.isprintable() for character in url)
        _ = parts.port
    except ValueError:
        sound = False
    if not sound:
        message = f"{where}: {without_user(url)!r} is not a URL like https://host:6443"
        raise ConfigurationError(message)
    if "@" in parts.netloc:
        message = f"{where}: there is a user or a password in the URL: set username and password of the user instead"
        raise ConfigurationError(message)
    return (parts.scheme + whole[len(parts.scheme) :]).rstrip("/")


def check_file(entry: Mapping[str, Any], field: str, where: str) -> None:
    """A named file must be readable, unless inline data replaces it."""
    path = entry.get(field)
    if not path or entry.get(f"{field}-data"):
        return
    try:
        with Path(path).open("rb"):
            pass
    except OSError as error:
        message = f"{where}.{field}: {path}: {error.strerror or error}"
        raise ConfigurationError(message) from None


def string(value: Any, where: str) -> str:
    """The value, if it is a string that says something. Raises `ConfigurationError`."""
    if not isinstance(value, str) or not value:
        found = "it is missing" if value in (None, "") else f"found {kind_of(value)}"
        message = f"{where}: expected a string, {found}"
        raise ConfigurationError(message)
    return value


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        message = f"{where}: expected a mapping, found {kind_of(value)}"
        raise ConfigurationError(message)
    return value


def kind_of(value: Any) -> str:
    """What a value of YAML is, for messages; never the text itself."""
    names = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", type(None): "nothing"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else f"the value {value}")
