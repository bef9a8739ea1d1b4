"""Whatever kscheduler is given to prove who it is, and whatever goes wrong with it: no output holds it.

The real process runs at `-v 10`. Everything that it says is searched for the markers: both standard streams, stacks at
SIGQUIT, all its pages, the Events and conditions that it writes.
"""

import asyncio
import base64
import contextlib
import json
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from tests.builders import node_tree, pod_tree
from tests.effort import sampled
from tests.service.running import node_of, put

REPOSITORY = Path(__file__).parents[3]
SECONDS = 60.0
# Part of every secret, and of nothing else.
MARK = "mArKeR"
PAGES = ("/", "/livez?verbose", "/readyz?verbose", "/healthz?verbose", "/metrics", "/configz", "/version")
PERMIT_TOKEN = f"permit-{MARK}-0123456789abcdef"
TROUBLES = ("none", "401", "refused", "tls")
HAS_SETTLED = re.compile(r"pod_bound|credentials_refused|api_server_unreachable|list_or_watch_fails|kscheduler: ")

PLUGIN = """\
#!{python}
import json, sys
{body}
"""
GIVES_TOKEN = (
    'print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", '
    f'"status": {{"token": "exec-{MARK}-token"}}}}))'
)
FAILS = f"print('stdout {MARK}'); print('token: stderr-{MARK}', file=sys.stderr); sys.exit(3)"
PRINTS_NO_JSON = f"print('exec-{MARK}-token')"
PRINTS_HALF = f'print(json.dumps({{"status": {{"tokem": "half-{MARK}"}}}}))'


@dataclass
class Identity:
    """One way to prove who one is."""

    user: dict[str, Any]
    userinfo: str = ""
    """In front of the server's host."""
    cluster: dict[str, Any] = field(default_factory=dict)


def identities(folder: Path) -> dict[str, Identity]:
    token_file = folder / "token"
    token_file.write_text(f"file-{MARK}-token")

    def plugin(name: str, body: str) -> Identity:
        path = folder / name
        path.write_text(PLUGIN.format(python=sys.executable, body=body))
        path.chmod(0o755)
        env = [{"name": "SECRET_FOR_PLUGIN", "value": f"env-{MARK}"}]
        exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path), "env": env}
        return Identity({"exec": {**exec_, "args": [f"--password={MARK}"], "interactiveMode": "Never"}})

    return {
        "token": Identity({"token": f"inline-{MARK}-token"}),
        "token file": Identity({"tokenFile": str(token_file)}),
        "password": Identity({"username": "admin", "password": f"pass-{MARK}"}),
        "password in the URL": Identity({}, userinfo=f"admin:url-{MARK}@"),
        "password of a proxy": Identity({}, cluster={"proxy-url": f"http://u:proxy-{MARK}@127.0.0.1:1"}),
        "exec plugin": plugin("gives", GIVES_TOKEN),
        "exec plugin that fails": plugin("fails", FAILS),
        "exec plugin without JSON": plugin("mumbles", PRINTS_NO_JSON),
        "exec plugin with half of it": plugin("halves", PRINTS_HALF),
    }


def kubeconfig(folder: Path, identity: Identity, url: str) -> Path:
    scheme, _, host = url.partition("://")
    server = f"{scheme}://{identity.userinfo}{host}"
    tree = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **identity.cluster}}],
        "users": [{"name": "u", "user": identity.user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / f"kubeconfig-{scheme}-{host.replace(':', '-')}"
    path.write_text(json.dumps(tree))
    return path


class Watched:
    """The process, and all that it has said."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = ""
        self.port = 0
        self.settled = asyncio.Event()

    async def read(self, stream: asyncio.StreamReader) -> None:
        while raw := await stream.readline():
            line = raw.decode(errors="backslashreplace")
            self.output += line
            if found := re.search(r'http_server_listening.*"?port"?[:=](\d+)', line):
                self.port = int(found[1])
            if HAS_SETTLED.search(line):
                self.settled.set()
        self.settled.set()


@asynccontextmanager
async def watched(folder: Path, config: Path, how: str) -> AsyncIterator[Watched]:
    permit = folder / "permit"
    permit.write_text(PERMIT_TOKEN)
    flags = ["--kubeconfig", str(config), "--permit-token-file", str(permit), "--secure-port", "0"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kscheduler", "run", *flags, "--insecure-port", "0", "-v", "10", "--log-format", how),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "API_TOKEN": f"environment-{MARK}", "KUBERNETES_TOKEN": f"environment-{MARK}"},
        limit=2**24,
    )
    seen = Watched(process)
    assert process.stdout is not None
    assert process.stderr is not None
    reading = [asyncio.ensure_future(seen.read(stream)) for stream in (process.stdout, process.stderr)]
    try:
        yield seen
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGQUIT)  # the stacks are an output, too
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*reading)
            await process.wait()


async def pages_of(port: int) -> str:
    """All that it serves, to strangers and to who has the token; a wrong token must not be repeated either."""
    found = ""
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        for page in (*PAGES, "/waiting-pods"):
            for token in ("", PERMIT_TOKEN, f"wrong-{MARK}-token"):
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                async with session.get(page, headers=headers) as response:
                    found += f"{response.headers}{await response.text()}"
    return found


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def everything_said(folder: Path, name: str, trouble: str, how: str) -> str:
    """All outputs of one run."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        put(server, "pods", pod_tree("p"))
        url = server.url
        if trouble == "401":
            server.faults.add(InjectedFault("answer", code=401))
        elif trouble == "refused":
            url = f"http://127.0.0.1:{unused_port()}"
        elif trouble == "tls":
            url = server.url.replace("http:", "https:")
        identity = identities(folder)[name]
        async with watched(folder, kubeconfig(folder, identity, url), how) as seen:
            async with asyncio.timeout(SECONDS):
                await seen.settled.wait()
            pages = await pages_of(seen.port) if seen.port and seen.process.returncode is None else ""
        kinds = ("pods", "events")
        stored = [record.value for kind in kinds for record in server.store.collection(kind).records.values()]
        if trouble == "none" and name in ("token", "token file", "password", "exec plugin"):
            assert node_of(server, "p") == "node", seen.output[-3000:]
            assert "most recent call first" in seen.output
        return "\n".join([seen.output, pages, json.dumps(stored)])


NAMES = (
    *("token", "token file", "password", "password in the URL", "password of a proxy"),
    *("exec plugin", "exec plugin that fails", "exec plugin without JSON", "exec plugin with half of it"),
)


def test_every_way_is_tried(tmp_path: Path) -> None:
    assert identities(tmp_path).keys() == set(NAMES)


@pytest.mark.parametrize("name", sampled(reversed(NAMES), 1, "starts kscheduler as a process for each trouble"))
async def test_no_output_holds_what_it_was_given(name: str, tmp_path: Path) -> None:
    troubles = TROUBLES if name in ("token", "exec plugin") else TROUBLES[:2]
    for number, trouble in enumerate(troubles):
        folder = tmp_path / trouble
        folder.mkdir()
        said = await everything_said(folder, name, trouble, ("json", "text")[number % 2])
        assert len(said) > 100
        forms = (MARK, base64.b64encode(f"admin:pass-{MARK}".encode()).decode())
        leaks = [line for line in said.splitlines() if any(form in line for form in forms)]
        assert not leaks, f"{trouble}: {leaks[0][:600]}"
