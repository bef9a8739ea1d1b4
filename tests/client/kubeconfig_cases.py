"""client-go's rules for kubeconfigs, one row each: what is sent, or that the file is refused.

`test_kubeconfig_rules` asks kscheduler; the end-to-end suite asks the real kubectl (`tests/e2e/access`), so that a row
is client-go's rule and not our belief. `SERVER` stands for the URL of an https server whose certificate is `ca.crt`.
"""

import base64
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CERTIFICATES: Final = Path(__file__).parent / "certificates"
INSECURE: Final = "insecure-skip-tls-verify: true"
V1, BETA = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
GROUPS: Final = (("Impersonate-Group", "dev"), ("Impersonate-Group", "ops"))


@dataclass(frozen=True)
class Case:
    id: str
    user: str = "{token: t}"
    """The user, in YAML's flow style."""
    sends: str = ""
    """The Authorization header."""
    refused: str = ""
    """A part of our message; empty: the file is taken."""
    cluster: str = INSECURE
    """The cluster's fields but for `server`."""
    server: str = "SERVER"
    more: str = ""
    """Further lines of the file."""
    impersonates: tuple[tuple[str, str], ...] = ()
    not_queried: str = ""
    """Why kubectl is not asked: it prompts for a user where client-go's other programs go on as nobody."""

    def text(self, server: str) -> str:
        return (
            "apiVersion: v1\nkind: Config\ncurrent-context: x\n"
            "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
            f'clusters: [{{name: c, cluster: {{server: "{self._server(server)}", {self._cluster()}}}}}]\n'
            f"users: [{{name: u, user: {self.user}}}]\n{self.more}"
        )

    def _server(self, server: str) -> str:
        return self.server.replace("UPPER_SERVER", server.upper()).replace("SERVER", server)

    def _cluster(self) -> str:
        return self.cluster.replace("CA_DATA", base64.b64encode((CERTIFICATES / "first.crt").read_bytes()).decode())


def plugin(command: str = "./plugin", version: str = V1, more: str = "interactiveMode: Never") -> str:
    return f"exec: {{apiVersion: {version}, command: {command}, {more}}}"


CASES: Final = (
    # --- which of several credentials
    Case("token", "{token: t}", "Bearer t"),
    Case("token file", "{tokenFile: token}", "Bearer from-file"),
    Case("a token and a token file", "{token: t, tokenFile: token}", "Bearer from-file"),
    Case("user and password", "{username: a, password: b}", "Basic YTpi"),
    Case("a user without a password", "{username: a}", "Basic YTo="),
    Case("a token and a user", "{token: t, username: a}", refused="a token and a username or password"),
    Case("a token and a password", "{token: t, password: a}", refused="a token and a username or password"),
    Case("a token file and a user", "{tokenFile: token, username: a}", refused="a token and a username or password"),
    Case("a token file and a password", "{tokenFile: token, password: a}", "Bearer from-file"),
    Case("nobody", "{}", "", not_queried="it prompts for a user"),
    Case("a token file that is missing", "{tokenFile: missing}", refused="tokenFile: "),
    Case("an exec plugin", f"{{{plugin()}}}", "Bearer from-plugin"),
    Case("a token and an exec plugin", f"{{token: t, {plugin('./fails')}}}", "Bearer t"),
    Case("a token file and an exec plugin", f"{{tokenFile: token, {plugin('./fails')}}}", "Bearer from-file"),
    Case("a user and an exec plugin", f"{{username: a, {plugin('./fails')}}}", "Basic YTo="),
    Case(
        "a certificate and an exec plugin",
        f"{{client-certificate: ca.crt, client-key: ca.key, {plugin('./fails')}}}",
        "",
    ),
    Case("a key and an exec plugin", f"{{client-key: missing.key, {plugin()}}}", "Bearer from-plugin"),
    Case(
        "an exec plugin and a provider",
        f"{{auth-provider: {{name: oidc}}, {plugin()}}}",
        refused="only one of the two is allowed",
    ),
    Case(
        "a token and a provider",
        "{token: t, auth-provider: {name: oidc, config: {idp-issuer-url: 'https://i', client-id: c}}}",
        "Bearer t",
        not_queried="the kubectl that is built for tests has no providers",
    ),
    # --- client certificates
    Case("a certificate without a key", "{client-certificate: ca.crt}", refused="there is no client-key"),
    Case("a key without a certificate", "{client-key: ca.key, token: t}", "Bearer t"),
    Case("a certificate that is missing", "{client-certificate: no, client-key: ca.key}", refused="client-certificate"),
    Case("a key that is missing", "{client-certificate: ca.crt, client-key: no}", refused="client-key"),
    Case(
        "a certificate twice",
        "{client-certificate: ca.crt, client-certificate-data: YQ==, client-key: ca.key}",
        refused="client-certificate and client-certificate-data are both given",
    ),
    Case(
        "a key twice",
        "{client-certificate: ca.crt, client-key-data: YQ==, client-key: ca.key}",
        refused="client-key and client-key-data are both given",
    ),
    # --- the exec plugin's settings
    Case("no command", f"{{exec: {{apiVersion: {V1}, interactiveMode: Never}}}}", refused="command: expected a string"),
    Case("no version", "{exec: {command: ./plugin, interactiveMode: Never}}", refused="apiVersion: expected a string"),
    Case("another version", f"{{{plugin(version='client.authentication.k8s.io/v1alpha1')}}}", refused="is none of"),
    Case("no interactiveMode", f"{{{plugin(more='args: []')}}}", refused="interactiveMode: it is missing"),
    Case("no interactiveMode in v1beta1", f"{{{plugin('./beta', BETA, 'args: []')}}}", "Bearer from-beta"),
    Case("another interactiveMode", f"{{{plugin(more='interactiveMode: Maybe')}}}", refused="interactiveMode: 'Maybe'"),
    Case(
        "an interactive plugin",
        f"{{{plugin(more='interactiveMode: Always')}}}",
        refused="standard input is no terminal",
    ),
    Case(
        "a variable without a name",
        f"{{{plugin(more='interactiveMode: Never, env: [{value: a}]')}}}",
        refused="env[0].name",
    ),
    Case(
        "arguments and variables",
        f"{{{plugin('./echoes', more='interactiveMode: Never, args: [one], env: [{name: TWO, value: two}]')}}}",
        "Bearer one-two",
    ),
    # --- what the plugin gets and gives
    Case("no cluster without provideClusterInfo", f"{{{plugin('./wants-cluster')}}}", refused="no cluster for me"),
    Case(
        "provideClusterInfo",
        f"{{{plugin('./wants-cluster', more='interactiveMode: Never, provideClusterInfo: true')}}}",
        "Bearer for-a-cluster",
    ),
    Case(
        "the cluster's extension",
        f"{{{plugin('./wants-audience', more='interactiveMode: Never, provideClusterInfo: true')}}}",
        "Bearer for-an-audience",
        cluster=f"{INSECURE}, extensions: [{{name: client.authentication.k8s.io/exec, extension: {{audience: me}}}}]",
    ),
    Case("no credentials", f"{{{plugin('./empty')}}}", refused="neither a token nor a certificate"),
    Case("no status", f"{{{plugin('./no-status')}}}", refused="there is no 'status'"),
    Case("a certificate alone", f"{{{plugin('./half')}}}", refused="a certificate without its key"),
    Case("a certificate from the plugin", f"{{{plugin('./certificate')}}}", ""),
    Case("a certificate that is none", f"{{{plugin('./bad-certificate')}}}", refused="not a usable PEM file"),
    Case("an answer in another version", f"{{{plugin('./beta')}}}", refused="the kubeconfig asks for"),
    Case("no JSON", f"{{{plugin('./text')}}}", refused="no ExecCredential in JSON"),
    Case("a program that fails", f"{{{plugin('./fails')}}}", refused="it ended with exit code 3"),
    Case(
        "a program that is missing",
        f"{{{plugin('./missing', more='interactiveMode: Never, installHint: get the login helper')}}}",
        refused="No such file or directory: get the login helper",
    ),
    # --- the cluster
    Case("authority", sends="Bearer t", cluster="certificate-authority: ca.crt"),
    Case(
        "authority and insecure",
        cluster=f"{INSECURE}, certificate-authority: ca.crt",
        refused="specifying a root certificates file with the insecure flag is not allowed",
    ),
    Case(
        "inline authority and insecure",
        cluster=f"{INSECURE}, certificate-authority-data: CA_DATA",
        refused="specifying a root certificates file with the insecure flag is not allowed",
    ),
    Case(
        "authority twice",
        cluster="certificate-authority: ca.crt, certificate-authority-data: CA_DATA",
        refused="certificate-authority and certificate-authority-data are both given",
    ),
    Case("an authority that is missing", cluster="certificate-authority: no.crt", refused="certificate-authority: "),
    Case("a scheme in capitals", sends="Bearer t", server="UPPER_SERVER"),
    Case("a slash at the end", sends="Bearer t", server="SERVER/"),
    Case("no server", server="", refused="server: expected a string"),
    Case("an unknown scheme", server="ftp://127.0.0.1:1", refused="is not a URL"),
    Case("another kind of proxy", cluster=f"{INSECURE}, proxy-url: 'socks4://127.0.0.1:1'", refused="SOCKS"),
    Case("a proxy without a scheme", cluster=f"{INSECURE}, proxy-url: 'proxy'", refused="is not a URL"),
    # --- impersonation
    Case("as", "{token: t, as: jane}", "Bearer t", impersonates=(("Impersonate-User", "jane"),)),
    Case(
        "as, with all that belongs to it",
        "{token: t, as: jane, as-uid: '7', as-groups: [dev, ops], as-user-extra: {scopes: [a, b], 'x/y': [c]}}",
        "Bearer t",
        impersonates=(
            *GROUPS,
            ("Impersonate-Extra-scopes", "a"),
            ("Impersonate-Extra-scopes", "b"),
            ("Impersonate-Extra-x%2fy", "c"),
            ("Impersonate-Uid", "7"),
            ("Impersonate-User", "jane"),
        ),
    ),
    Case("groups without as", "{token: t, as-groups: [dev]}", refused="as is missing"),
    Case("a uid without as", "{token: t, as-uid: '7'}", refused="as is missing"),
    Case("extra without as", "{token: t, as-user-extra: {a: [b]}}", refused="as is missing"),
    # --- the file
    Case(
        "two users of one name",
        more="users: [{name: u, user: {token: t}}, {name: u, user: {token: s}}]\n",
        refused="there are two users 'u'",
    ),
    Case(
        "two clusters of one name",
        more='clusters: [{name: c, cluster: {server: "http://h"}}, {name: c, cluster: {server: "http://h"}}]\n',
        refused="there are two clusters 'c'",
    ),
    Case(
        "two contexts of one name, neither of them used",
        more="contexts: [{name: x, context: {cluster: c, user: u}}, {name: y}, {name: y}]\n",
        refused="contexts[",
    ),
    Case("a field that nobody knows", "{token: t, colour: red}", "Bearer t", more="colour: blue\n"),
    Case("another kind", more="kind: Pod\n", refused="not a Config of v1"),
    Case(
        "a user that is not there",
        more="contexts: [{name: x, context: {cluster: c, user: nobody}}]\n",
        refused="there is no entry 'nobody' in users",
        not_queried="it prompts for a user (client-go goes on as nobody: docs/differences.md)",
    ),
    Case("a context that is not there", more="current-context: other\n", refused="no entry 'other' in contexts"),
)


def _response(status: object, version: str = V1) -> str:
    return json.dumps({"kind": "ExecCredential", "apiVersion": version, "status": status})


def lay_out(folder: Path) -> None:
    """The files that the rows name."""
    (folder / "token").write_text("from-file\n")
    shutil.copy(CERTIFICATES / "first.crt", folder / "ca.crt")
    shutil.copy(CERTIFICATES / "first.key", folder / "ca.key")
    certificate, key = ((folder / name).read_text() for name in ("ca.crt", "ca.key"))
    info = "$KUBERNETES_EXEC_INFO"
    programs = {
        "plugin": f"echo '{_response({'token': 'from-plugin'})}'",
        "beta": f"echo '{_response({'token': 'from-beta'}, BETA)}'",
        "fails": "echo 'do not run me' >&2; exit 3",
        "echoes": f"echo '{_response({'token': 'ONE-TWO'})}' | sed s/ONE-TWO/$1-$TWO/",
        "wants-cluster": (
            f"""case "{info}" in *'"cluster":'*'"server":'*) echo '{_response({"token": "for-a-cluster"})}';;"""
            " *) echo no cluster for me >&2; exit 1;; esac"
        ),
        "wants-audience": (
            f"""case "{info}" in *'"audience":'*'"me"'*) echo '{_response({"token": "for-an-audience"})}';;"""
            " *) exit 1;; esac"
        ),
        "empty": f"echo '{_response({})}'",
        "no-status": f"echo '{json.dumps({'kind': 'ExecCredential', 'apiVersion': V1})}'",
        "half": f"echo '{_response({'clientCertificateData': 'x'})}'",
        "certificate": f"cat <<'E'\n{_response({'clientCertificateData': certificate, 'clientKeyData': key})}\nE",
        "bad-certificate": f"echo '{_response({'clientCertificateData': 'x', 'clientKeyData': 'y'})}'",
        "text": "echo hello",
    }
    for name, script in programs.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)


def write_kubeconfig(case: Case, folder: Path, server: str) -> Path:
    """The row's file beside what it names."""
    lines = case.text(server).splitlines()
    # a row's further lines stand in the place of the usual ones
    further = {line.partition(":")[0] for line in case.more.splitlines()}
    usual = [
        line for line in lines[: len(lines) - len(case.more.splitlines())] if line.partition(":")[0] not in further
    ]
    path = folder / "config"
    path.write_text("\n".join([*usual, *case.more.splitlines()]) + "\n")
    return path
