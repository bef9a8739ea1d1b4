"""Where the server is: good configurations connect, bad ones give one line that names file and field."""

import asyncio
import os
import shutil
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kscheduler.aio import VirtualClock
from kscheduler.client.access.connection import Connection, load_connection, load_service_account, plain_connection
from kscheduler.client.access.exec_plugin import SlowPlugin
from kscheduler.client.errors import ConfigurationError, CredentialsError
from kscheduler.client.rest import APIClient
from tests.client.scripted import reply, scripted_server

GOOD = """
apiVersion: v1
kind: Config
current-context: dev
contexts: [{name: dev, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:8001/"}}]
users: [{name: u, user: {token: secret-token}}]
"""


def write(folder: Path, text: str, name: str = "config") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


async def load(path: str, **more: object) -> Connection:
    return await load_connection(kubeconfig=path, **more)  # type: ignore[arg-type]


async def test_a_kubeconfig_gives_url_and_token_and_a_description_without_secrets(tmp_path: Path) -> None:
    connection = await load(write(tmp_path, GOOD))
    assert connection.base_url == "http://127.0.0.1:8001"
    assert await connection.headers() == {"Authorization": "Bearer secret-token"}
    assert "secret" not in f"{connection.description} {connection!r}"


async def test_what_is_not_verified_or_sent_in_clear_is_reported_with_its_place(tmp_path: Path) -> None:
    """Insecure alone is allowed, as in client-go, and no secret: each start says so."""
    good = await load(write(tmp_path, HTTPS))
    assert good.warnings == ()
    insecure = await load(write(tmp_path, HTTPS.replace('8001/"', f'8001/", {SKIPS}, tls-server-name: other')))
    assert [
        f"{tmp_path}/config: clusters[0].cluster.{SKIPS.partition(':')[0]}" in one for one in insecure.warnings
    ] == [True]
    in_clear = GOOD.replace('http://127.0.0.1:8001/"', f'http://far.example:80/", {AUTHORITY_DATA}')
    unverified, sent = (await load(write(tmp_path, in_clear))).warnings
    assert "certificate-authority-data of the kubeconfig are not used" in unverified
    assert "token or password is sent where everybody" in sent
    assert "secret-token" not in sent


async def test_of_a_token_and_a_token_file_the_file_counts_as_it_is_renewed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-the-file")
    both = GOOD.replace("token: secret-token", "token: secret-token, tokenFile: token")
    assert await (await load(write(tmp_path, both))).headers() == {"Authorization": "Bearer from-the-file"}


async def test_a_user_without_a_password_is_still_somebody(tmp_path: Path) -> None:
    connection = await load(write(tmp_path, GOOD.replace("token: secret-token", "username: me")))
    assert await connection.headers() == {"Authorization": "Basic bWU6"}


async def test_headers_are_the_same_object_until_they_change(tmp_path: Path) -> None:
    connection = await load(write(tmp_path, GOOD))
    assert await connection.headers() is await connection.headers()


HTTPS = GOOD.replace("http://", "https://")
AUTHORITY_DATA = "certificate-authority-data: aGVsbG8="
SKIPS = "insecure-skip-tls-verify: true"
NOTHING_VERIFIED = "specifying a root certificates file with the insecure flag is not allowed"

BROKEN = [
    pytest.param(
        HTTPS.replace('8001/"', f'8001/", {SKIPS}, certificate-authority: config'),
        f"clusters[0].cluster.{SKIPS} beside certificate-authority (cluster 'c'): {NOTHING_VERIFIED}",
        id="authority beside insecure",
    ),
    pytest.param(
        HTTPS.replace('8001/"', f'8001/", {SKIPS}, {AUTHORITY_DATA}'),
        f"true beside certificate-authority-data (cluster 'c'): {NOTHING_VERIFIED}",
        id="inline authority beside insecure",
    ),
    pytest.param(
        HTTPS.replace('8001/"', f'8001/", {SKIPS}, {AUTHORITY_DATA}').replace(
            "token: secret-token",
            "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: echo}",
        ),
        NOTHING_VERIFIED,
        id="authority beside insecure and an exec plugin",
    ),
    pytest.param(
        HTTPS.replace('8001/"', f'8001/", certificate-authority: config, {AUTHORITY_DATA}'),
        "clusters[0].cluster: certificate-authority and certificate-authority-data are both given",
        id="authority twice",
    ),
    pytest.param(
        GOOD.replace(
            "token: secret-token", "client-certificate: config, client-key: config, client-key-data: aGVsbG8="
        ),
        "users[0].user: client-key and client-key-data are both given",
        id="key twice",
    ),
    pytest.param(
        GOOD.replace("token: secret-token", "token: secret-token, username: me"),
        "users[0].user: a token and a username or password",
        id="two ways to say who it is",
    ),
    pytest.param(
        GOOD.replace("token: secret-token", "auth-provider: {name: oidc}, exec: {apiVersion: v1, command: ls}"),
        "users[0].user: exec and auth-provider",
        id="two plugins",
    ),
    pytest.param("a: [", "line 2", id="bad YAML"),
    pytest.param("a: b\n c: d\n", "line 2", id="bad YAML on a later line"),
    pytest.param("", "the file is empty", id="empty"),
    pytest.param("- a", "expected a mapping with clusters", id="a list"),
    pytest.param("clusters: []", "current-context is not set", id="no context"),
    pytest.param("current-context: dev", "no entry 'dev' in contexts", id="missing context"),
    pytest.param(
        GOOD.replace("cluster: c,", "cluster: x,"),
        "contexts[0].context.cluster: there is no entry 'x'",
        id="missing cluster",
    ),
    pytest.param(
        GOOD.replace("user: u}", "user: x}"), "contexts[0].context.user: there is no entry 'x'", id="missing user"
    ),
    pytest.param(GOOD.replace("user: u}", "user: 7}"), "there is no entry 7 in users", id="user is a number"),
    pytest.param(
        GOOD.replace('"http://127.0.0.1:8001/"', "7"),
        "clusters[0].cluster.server: expected a string",
        id="server is a number",
    ),
    pytest.param(GOOD.replace("http://127.0.0.1:8001/", "127.0.0.1:8001/a"), "is not a URL", id="no URL"),
    pytest.param(GOOD.replace("http://127.0.0.1:8001/", "https://h:99999"), "is not a URL", id="bad port"),
    pytest.param("clusters: 7", "clusters: expected a list", id="clusters is no list"),
    pytest.param("clusters: [7]", "clusters[0]: expected a mapping", id="cluster is a number"),
    pytest.param("clusters: [{cluster: {}}]", "clusters[0].name: expected a string, it is missing", id="no name"),
    pytest.param(
        "clusters: [{name: a, cluster: []}]", "clusters[0].cluster: expected a mapping", id="cluster is a list"
    ),
    pytest.param(
        GOOD.replace("token: secret-token", "client-certificate: no.pem"),
        "client-certificate",
        id="no certificate file",
    ),
    pytest.param(GOOD.replace("token: secret-token", "tokenFile: no"), "tokenFile", id="no token file"),
    pytest.param(
        GOOD.replace("token: secret-token", "client-key-data: '%%'"),
        "users[0].client-key-data: not base64",
        id="not base64",
    ),
    pytest.param(
        GOOD.replace("http:", "https:").replace('8001/"', '8001/", certificate-authority: config'),
        "certificate-authority",
        id="authority is no PEM",
    ),
    pytest.param("clusters:\n- a: b: c", "line 2: mapping values are not allowed", id="no YAML, and where"),
    pytest.param('clusters:\n- name: "a\n\n', "scanning a quoted scalar that begins in line 2", id="an open quote"),
    pytest.param("clusters: \0", "not YAML: unacceptable character #x0000", id="no text"),
    pytest.param(
        GOOD.replace("token: secret-token", "token: 5"),
        "users[0].user.token: expected a string, found a number",
        id="token is a number",
    ),
    pytest.param(
        GOOD.replace("token: secret-token", "client-certificate-data: aGVsbG8="),
        "users[0].user.client-certificate: there is no client-key or client-key-data beside it",
        id="certificate without key",
    ),
    pytest.param(
        GOOD.replace("token: secret-token", "exec: 7"), "users[0].user.exec: expected a mapping", id="exec is a number"
    ),
    pytest.param(
        GOOD.replace("token: secret-token", "exec: {command: ls}"),
        "users[0].user.exec.apiVersion: expected a string, it is missing",
        id="exec without version",
    ),
    pytest.param(
        GOOD.replace(
            "token: secret-token",
            "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: echo}",
        ),
        "users.exec echo: what it prints is no ExecCredential in JSON",
        id="exec prints nothing",
    ),
    pytest.param(
        GOOD.replace(
            "token: secret-token",
            "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: 'false'}",
        ),
        "users.exec false: it ended with exit code 1",
        id="exec fails",
    ),
    pytest.param(
        GOOD.replace("token: secret-token", "auth-provider: 7"),
        "users[0].user.auth-provider: expected a mapping",
        id="provider is a number",
    ),
    pytest.param(
        GOOD.replace('8001/"', '8001/", proxy-url: foo'),
        "clusters[0].cluster.proxy-url: 'foo' is not a URL",
        id="proxy is no URL",
    ),
    pytest.param(
        GOOD.replace('8001/"', '8001/", proxy-url: "socks5://h:1"'), "SOCKS proxies are not supported", id="SOCKS proxy"
    ),
    pytest.param(
        GOOD.replace('8001/"', '8001/", tls-server-name: 7'),
        "clusters[0].cluster.tls-server-name: expected a string, found a number",
        id="server name is a number",
    ),
    pytest.param(
        GOOD.replace('8001/"', '8001/", insecure-skip-tls-verify: "yes"'),
        "clusters[0].cluster.insecure-skip-tls-verify: expected true or false, found a string",
        id="skip is text",
    ),
    pytest.param(
        GOOD.replace("http:", "https:").replace('8001/"', '8001/", certificate-authority-data: aGVsbG8='),
        "clusters[0].cluster.certificate-authority-data: there is no PEM certificate in it",
        id="inline authority is no PEM",
    ),
    pytest.param(
        GOOD.replace("http:", "https:").replace(
            "token: secret-token", "client-certificate-data: aGVsbG8=, client-key-data: aGVsbG8="
        ),
        "users[0].user.client-certificate-data: not a usable PEM file",
        id="inline certificate is no PEM",
    ),
    pytest.param(
        GOOD.replace("token: secret-token", "auth-provider: {name: gcp}"),
        "kubernetes_asyncio cannot read it",
        id="provider that needs more",
    ),
    pytest.param(
        GOOD.replace("secret-token", '"secret\\ntoken"'),
        "users[0].user.token: a token has no",
        id="line end in a token",
    ),
    pytest.param(GOOD.replace("secret-token", "secret token"), "users[0].user.token: a token has no", id="two tokens"),
    pytest.param(
        GOOD.replace("secret-token", '"secret\\x07token"'), "users[0].user.token: there is a line", id="bell in a token"
    ),
    pytest.param(GOOD.replace("secret-token", "secret-tökén"), "users[0].user.token: a token is ASCII", id="no ASCII"),
    pytest.param(
        GOOD.replace("token: secret-token", 'username: u, password: "secret\\nword"'),
        "users[0].user.password: there is a line end",
        id="line end in a password",
    ),
    pytest.param(
        GOOD.replace("http://127", "https://root:secret@127"),
        "clusters[0].cluster.server: there is a user or a password in the URL",
        id="password in the URL",
    ),
    pytest.param(
        GOOD.replace("http://127", "htp://root:secret@127"), "'htp://...@127.0.0.1:8001/' is not a URL", id="and no URL"
    ),
    pytest.param(
        GOOD.replace("127.0.0.1:8001/", "127.0.0.1:8001\\n"),
        "clusters[0].cluster.server: 'http:",
        id="URL with line end",
    ),
    pytest.param(
        GOOD.replace('8001/"', '8001/", proxy-url: "socks5://u:secret@h:1"'), "'socks5://...@h:1'", id="SOCKS password"
    ),
    pytest.param("[" * 100_000, "nested more than 100 deep", id="deep enough to end the process"),
    pytest.param(
        GOOD.replace("token: secret-token", "as: 7"),
        "users[0].user.as: expected a string, found a number",
        id="impersonation of a number",
    ),
    pytest.param(
        GOOD.replace("token: secret-token", 'as: a, as-groups: ["secret\\ngroup"]'),
        "a group or an extra value to impersonate: there is a line end",
        id="line end in a group",
    ),
    pytest.param(
        GOOD.replace(
            "token: secret-token", "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./missing}"
        ),
        "missing",
        id="exec plugin missing",
    ),
]


@pytest.mark.parametrize(("text", "expected"), BROKEN)
async def test_a_broken_kubeconfig_gives_one_line_that_names_file_and_field(
    tmp_path: Path, text: str, expected: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigurationError) as caught:
        await load(path)
    message = str(caught.value)
    assert expected in message
    assert path in message
    assert "\n" not in message
    assert "secret" not in message
    assert "/tmp/tmp" not in message  # the temporary file that the library makes of inline data
    assert capfd.readouterr() == ("", "")


async def test_a_context_can_be_named_and_a_wrong_one_is_reported_with_those_that_there_are(tmp_path: Path) -> None:
    two = GOOD.replace("contexts: [", "contexts: [{name: other, context: {cluster: c}}, ")
    path = write(tmp_path, two)
    assert await (await load(path, context="other")).headers() == {}
    with pytest.raises(
        ConfigurationError, match=r"--context: there is no entry 'nope' in contexts \(there are: dev, ot"
    ):
        await load(path, context="nope")
    nameless = write(tmp_path, two.replace("current-context: dev", ""), "nameless")
    with pytest.raises(ConfigurationError, match=r"name one with --context \(there are: dev, other\)"):
        await load(nameless)
    assert (await load(nameless, context="dev")).base_url == "http://127.0.0.1:8001"


async def test_a_context_without_a_kubeconfig_is_refused_not_skipped(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"--context dev: --master alone"):
        await load_connection(master="http://127.0.0.1:1", context="dev")
    with pytest.raises(ConfigurationError, match=r"--context dev: there is no kubeconfig"):
        await load_connection(context="dev", environ={"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"})


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"kubeconfig .*/none: No such file"):
        await load(str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=r"/none: No such file"):
        await load_connection(environ={"KUBECONFIG": str(tmp_path / "none")})


async def test_nothing_at_all_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no API server"):
        await load_connection(environ={"HOME": str(tmp_path)})


async def test_of_several_files_the_first_to_name_something_wins(tmp_path: Path) -> None:
    first = write(tmp_path, "current-context: dev\nusers: [{name: u, user: {token: first}}]", "1")
    second = write(tmp_path, GOOD.replace("current-context: dev", "current-context: other"), "2")
    missing = str(tmp_path / "missing")
    connection = await load_connection(environ={"KUBECONFIG": f"{missing}:{first}:{second}"})
    assert await connection.headers() == {"Authorization": "Bearer first"}


async def test_relative_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "token").write_text("from-file\n")
    path = write(tmp_path / "sub", GOOD.replace("token: secret-token", "tokenFile: token"))
    assert await (await load(path)).headers() == {"Authorization": "Bearer from-file"}


async def test_master_alone_needs_no_credentials_and_beside_a_kubeconfig_replaces_the_url(tmp_path: Path) -> None:
    alone = await load_connection(master="http://127.0.0.1:9")
    assert (alone.base_url, await alone.headers()) == ("http://127.0.0.1:9", {})
    both = await load(write(tmp_path, GOOD), master="http://127.0.0.1:9")
    assert both.base_url == "http://127.0.0.1:9"
    assert await both.headers() == {"Authorization": "Bearer secret-token"}


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8001/path", "ftp://x", "http://", "http://h:port", "http://u:p@h:1", "http://h:1\n"]
)
def test_a_master_that_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--master"):
        plain_connection(url)


def exec_plugin(folder: Path) -> str:
    """A plugin whose token counts its runs."""
    script = folder / "plugin"
    script.write_text(
        "#!/bin/sh\n"
        f"echo x >> {folder}/runs\n"
        f"runs=$(wc -l < {folder}/runs)\n"
        'echo "{\\"apiVersion\\":\\"client.authentication.k8s.io/v1\\",\\"kind\\":\\"ExecCredential\\",'
        '\\"status\\":{\\"token\\":\\"run-$(echo $runs)\\"}}"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    plugin = "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: ./plugin}"
    return GOOD.replace("token: secret-token", plugin)


async def test_an_exec_plugin_is_run_again_when_the_server_refuses_its_token(tmp_path: Path) -> None:
    text = exec_plugin(tmp_path)
    refusal = reply(b'{"code":401}', 401)
    async with scripted_server(reply(b"{}"), refusal, reply(b"ok")) as server:
        connection = await load(write(tmp_path, text), master=server.url)
        async with APIClient(connection) as client:
            await client.get("/1")
            assert await client.get("/2") == b"ok"
        tokens = [request.headers["Authorization"] for request in server.requests]
    assert tokens == ["Bearer run-1", "Bearer run-1", "Bearer run-2"]


def printed(status: str) -> str:
    """A script that prints this status."""
    answer = f'{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}'
    return f"#!/bin/sh\necho '{answer}'\n"


async def test_an_exec_plugin_whose_certificate_is_broken_fails_requests_and_nothing_else(tmp_path: Path) -> None:
    """Senders expect a `ClientError`: any other would end the Event recorder and all else with
    it.
    """
    text = exec_plugin(tmp_path).replace("http:", "https:")
    connection = await load(write(tmp_path, text))
    before = await connection.headers()
    (tmp_path / "plugin").write_text(printed('{"clientCertificateData":"x","clientKeyData":"y"}'))
    with pytest.raises(CredentialsError, match="not a usable PEM file"):
        await connection.refresh(before)
    assert await connection.headers() is before  # what it gave before still counts


async def test_an_exec_plugin_is_run_again_when_what_it_gave_has_expired(tmp_path: Path) -> None:
    """As client-go: not before, though it may be asked for each request; and its failure fails the request alone."""
    clock = VirtualClock()
    text = exec_plugin(tmp_path)
    expires = datetime.fromtimestamp(clock.time() + 600, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    script = tmp_path / "plugin"
    script.write_text(script.read_text().replace('\\"token', f'\\"expirationTimestamp\\":\\"{expires}\\",\\"token'))
    connection = await load(write(tmp_path, text), clock=clock)
    await clock.advance(599)
    assert await connection.headers() == {"Authorization": "Bearer run-1"}
    assert connection.current_headers() == {"Authorization": "Bearer run-1"}
    await clock.advance(2)
    assert connection.current_headers() is None
    script.rename(tmp_path / "away")
    with pytest.raises(CredentialsError, match="No such file or directory"):
        await connection.headers()
    (tmp_path / "away").rename(script)
    all_of_them = await asyncio.gather(*(connection.headers() for _ in range(5)))
    assert all_of_them[0]["Authorization"] in ("Bearer run-2", "Bearer run-6")


def is_there(pid: int) -> bool:
    """Whether a process runs, or has ended and nobody knows yet."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_an_exec_plugin_that_nobody_waits_for_any_longer_is_ended(tmp_path: Path) -> None:
    text = exec_plugin(tmp_path)
    (tmp_path / "plugin").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 1000\n")
    os.mkfifo(tmp_path / "pid")
    loading = asyncio.ensure_future(load(write(tmp_path, text)))
    pid = int(await asyncio.to_thread((tmp_path / "pid").read_text))
    loading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loading
    for _ in range(1_000):  # killed by now; the loop may reap it a moment later
        if not is_there(pid):
            break
        await asyncio.sleep(0.01)
    assert not is_there(pid)


async def test_impersonation_sends_each_group_in_a_header_of_its_own(tmp_path: Path) -> None:
    text = GOOD.replace("token: secret-token", "token: t, as: jane, as-groups: [dev, ops]")
    async with scripted_server(reply(b"{}"), reply(b'{"items":[]}')) as server:
        connection = await load(write(tmp_path, text), master=server.url)
        assert "impersonating jane" in connection.description
        async with APIClient(connection) as client:
            await client.get("/1")
        sent = server.requests[0].headers
    assert sent["Impersonate-User"] == "jane"
    assert sent.getall("Impersonate-Group") == ["dev", "ops"]
    assert sent["Authorization"] == "Bearer t"


async def test_a_server_on_the_command_line_does_not_keep_the_name_of_the_kubeconfigs_certificate(
    tmp_path: Path,
) -> None:
    text = HTTPS.replace('8001/"', '8001/", tls-server-name: api')
    assert (await load(write(tmp_path, text))).server_name == "api"
    assert (await load(write(tmp_path, text), master="https://127.0.0.1:9")).server_name is None


async def test_an_empty_file_among_others_says_nothing(tmp_path: Path) -> None:
    files = [write(tmp_path, "", "empty"), write(tmp_path, GOOD)]
    connection = await load_connection(environ={"KUBECONFIG": os.pathsep.join(files)})
    assert connection.base_url == "http://127.0.0.1:8001"


FAR = "https://kube.internal.example:6443"


@pytest.mark.parametrize("from_kubeconfig", [True, False], ids=["kubeconfig", "service account"])
async def test_the_environments_proxy_is_used_and_reported_without_its_password(
    tmp_path: Path, from_kubeconfig: bool
) -> None:
    environ = {"HTTPS_PROXY": "http://me:secret@proxy.example:3128", "NO_PROXY": ".svc"}
    if from_kubeconfig:
        path = write(tmp_path, HTTPS.replace("https://127.0.0.1:8001", FAR))
        connection = await load(path, environ=environ)
        excluded = await load(path, environ=environ | {"NO_PROXY": ".internal.example"})
    else:
        account = service_account(tmp_path)
        connection = load_service_account(account | environ, VirtualClock(), str(tmp_path))
        excluded = load_service_account(account | environ | {"NO_PROXY": "10.0.0.0/8"}, VirtualClock(), str(tmp_path))
    assert connection.proxy == "http://me:secret@proxy.example:3128"
    assert connection.description.endswith("through http://...@proxy.example:3128 ($HTTPS_PROXY)")
    assert (excluded.proxy, " through " in excluded.description) == (None, False)


async def test_the_kubeconfigs_proxy_goes_before_the_environments_whatever_no_proxy_says(tmp_path: Path) -> None:
    more = 'https://127.0.0.1:8001/", proxy-url: "HTTP://proxy:3128"'
    path = write(tmp_path, HTTPS.replace('https://127.0.0.1:8001/"', more))
    connection = await load(path, environ={"HTTPS_PROXY": "http://other:1", "NO_PROXY": "*"})
    assert connection.proxy == "http://proxy:3128"


def test_master_goes_through_the_environments_proxy() -> None:
    assert plain_connection(FAR, {"HTTPS_PROXY": "http://proxy:3128"}).proxy == "http://proxy:3128"
    assert plain_connection(FAR.upper(), {}).base_url == "https://" + FAR.upper().removeprefix("HTTPS://")


async def test_an_exec_plugin_that_takes_long_is_reported_by_its_command_at_growing_distances() -> None:
    calls: list[tuple[str, float]] = []
    enough = asyncio.Event()

    def say(command: str, seconds: float) -> None:
        calls.append((command, seconds))
        if len(calls) == 3:
            enough.set()

    with SlowPlugin("sleep", say, first_seconds=0.001).timed():
        await asyncio.wait_for(enough.wait(), 20)
    assert calls == [("sleep", 0.001), ("sleep", 0.002), ("sleep", 0.004)]


async def test_an_exec_plugin_is_slow_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[float] = []

    class Loop:
        """Lets every timer end at once."""

        def call_later(self, delay: float, callback: Callable[..., None], *args: object) -> asyncio.Handle:
            delays.append(delay)
            return real.call_soon(callback, *args)

    calls: list[float] = []
    real = asyncio.get_running_loop()
    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    with SlowPlugin("login", lambda _, seconds: calls.append(seconds)).timed():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert (delays, calls) == ([5.0, 5.0, 10.0], [5.0, 10.0])


async def test_who_loads_a_slow_exec_plugin_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = exec_plugin(tmp_path)
    script, go = tmp_path / "plugin", tmp_path / "go"
    os.mkfifo(go)
    script.write_text(script.read_text().replace("#!/bin/sh\n", f"#!/bin/sh\nread line < {go}\n"))
    monkeypatch.setattr(SlowPlugin.__init__, "__defaults__", (0.001,))
    calls: list[str] = []

    def say(command: str, _seconds: float) -> None:
        calls.append(command)
        if len(calls) == 1:
            go.write_text("go\n")

    connection = await asyncio.wait_for(load(write(tmp_path, text), say_slow=say), 20)
    assert calls[0] == str(script)
    assert await connection.headers() == {"Authorization": "Bearer run-1"}


async def test_an_exec_plugin_must_be_allowed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="allowed explicitly"):
        await load(write(tmp_path, exec_plugin(tmp_path)), allow_exec=False)
    assert not (tmp_path / "runs").exists()


async def test_an_exec_plugin_whose_token_no_header_can_carry_is_one_line_without_the_token(tmp_path: Path) -> None:
    path = write(tmp_path, exec_plugin(tmp_path))
    script = tmp_path / "plugin"
    script.write_text(script.read_text().replace("run-$(", "secret run-$("))
    with pytest.raises(ConfigurationError, match="a token has no spaces or line ends") as caught:
        await load(path)
    assert "secret" not in str(caught.value)
    assert "run-" not in str(caught.value)


async def test_a_program_that_is_missing_is_reported_without_an_error_number(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        GOOD.replace(
            "token: secret-token", "exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: /nope/aws}"
        ),
    )
    with pytest.raises(ConfigurationError, match=r"users\.exec /nope/aws: No such file or directory$"):
        await load(path)


async def test_many_refused_requests_renew_the_credentials_once(tmp_path: Path) -> None:
    connection = await load(write(tmp_path, exec_plugin(tmp_path)))
    rejected = await connection.headers()
    assert all(await asyncio.gather(*(connection.refresh(rejected) for _ in range(5))))
    assert await connection.headers() == {"Authorization": "Bearer run-2"}


def test_a_service_account_that_is_not_there_is_named(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigurationError, match=r"in-cluster configuration .*/token"):
        load_service_account(environ, VirtualClock(), str(tmp_path))


def service_account(folder: Path) -> dict[str, str]:
    """The variables; token and authority as the kubelet mounts them."""
    (folder / "token").write_text("mounted-token")
    shutil.copy(Path(__file__).parent / "certificates" / "first.crt", folder / "ca.crt")
    return {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


async def test_a_service_account_gives_url_token_and_authority(tmp_path: Path) -> None:
    connection = load_service_account(service_account(tmp_path), VirtualClock(), str(tmp_path))
    assert connection.base_url == "https://10.0.0.1:443"
    assert await connection.headers() == {"Authorization": "Bearer mounted-token"}
    context = connection.ssl_context()
    assert isinstance(context, ssl.SSLContext)
    assert len(context.get_ca_certs()) == 1


def test_an_ipv6_service_gets_its_brackets(tmp_path: Path) -> None:
    environ = service_account(tmp_path) | {"KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert load_service_account(environ, VirtualClock(), str(tmp_path)).base_url == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("variables", "broken", "named"),
    [
        pytest.param({"KUBERNETES_SERVICE_PORT": ""}, None, "KUBERNETES_SERVICE_PORT must both be set", id="no port"),
        pytest.param({"KUBERNETES_SERVICE_PORT": "no"}, None, "is not a URL", id="port is a word"),
        pytest.param({}, "token", "token: it is empty", id="empty token"),
        pytest.param({}, "ca.crt", "ca.crt: it is empty", id="empty authority"),
    ],
)
def test_a_service_account_that_is_not_whole_is_one_line(
    tmp_path: Path, variables: dict[str, str], broken: str | None, named: str
) -> None:
    environ = service_account(tmp_path) | variables
    if broken:
        (tmp_path / broken).write_text("")
    with pytest.raises(ConfigurationError, match=named) as caught:
        load_service_account(environ, VirtualClock(), str(tmp_path))
    assert "\n" not in str(caught.value)


async def test_a_user_with_a_password_sends_it_as_basic_authentication(tmp_path: Path) -> None:
    connection = await load(write(tmp_path, GOOD.replace("token: secret-token", "username: ann, password: 'a:b'")))
    assert await connection.headers() == {"Authorization": "Basic YW5uOmE6Yg=="}


async def test_proxy_and_server_name_of_a_cluster_are_used(tmp_path: Path) -> None:
    more = 'https://127.0.0.1:8001/", proxy-url: "http://proxy:3128", tls-server-name: api'
    connection = await load(write(tmp_path, GOOD.replace('http://127.0.0.1:8001/"', more)))
    assert (connection.proxy, connection.server_name) == ("http://proxy:3128", "api")
