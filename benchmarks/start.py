"""What a start costs: CPU of `kscheduler run` until its first probe is answered.

    python -m benchmarks.start [--rounds 15] [--beside DIRECTORY] [--python PROGRAM] [--plain]

The service is a process of its own, on an embedded API server in this process, with a kubeconfig that holds a token. It
runs as in a cluster: it signs a certificate, serves HTTPS and elects itself; `--plain` leaves all of that out.
Its CPU time (all threads, user and system) is read from the kernel in nanoseconds at two moments: when `/livez` answers
200 for the first time, and when `/readyz` does; `kscheduler --help` is measured beside it, whole. `--beside` names a
second checkout of the sources, measured in turn with this one, so that whatever else the machine does falls on both.
`--python` is an interpreter that has the dependencies and no more, as the image has: a developer's environment also
holds what structlog imports where it finds it.
"""

import argparse
import asyncio
import http.client
import json
import os
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from kscheduler.embedded.apiserver import EmbeddedAPIServer

ROOT: Final = Path(__file__).parents[1]
POLL_SECONDS: Final = 0.002
PATIENCE_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Start:
    """CPU milliseconds of one start."""

    livez: float
    readyz: float
    help: float


def cpu_milliseconds(pid: int) -> float:
    """CPU time of a running process: the clock id is its complemented pid, and 2 for "all that ran", as in libc."""
    return time.clock_gettime((~pid << 3) | 2) * 1e3


def answers(port: int, path: str, *, is_plain: bool) -> bool:
    """Whether a probe gets 200 now. As a kubelet's, it takes every certificate."""
    kind = http.client.HTTPConnection if is_plain else HTTPS
    connection = kind("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except OSError:
        return False
    finally:
        connection.close()


def any_certificate() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


HTTPS: Final = partial(http.client.HTTPSConnection, context=any_certificate())


def wait_for(process: subprocess.Popen[bytes], port: int, path: str, *, is_plain: bool) -> float:
    """CPU milliseconds of `process` when `path` answers 200. Raises `SystemExit` if that does not happen."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not answers(port, path, is_plain=is_plain):
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"kscheduler did not answer {path}: exit code {process.poll()}")
        time.sleep(POLL_SECONDS)
    return cpu_milliseconds(process.pid)


def environment(source: Path) -> dict[str, str]:
    """Bytecode is kept, as it is in the image."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": str(source)}


def start_once(python: str, source: Path, kubeconfig: Path, port: int, *, is_plain: bool) -> Start:
    """One start, from fork to ready, and one `--help`."""
    command = [python, "-P", "-m", "kscheduler"]
    run = ["run", "--kubeconfig", str(kubeconfig), "--log-format", "json"]
    plain = ["--secure-port", "0", "--insecure-port", str(port), "--leader-elect=false"]
    run += plain if is_plain else ["--secure-port", str(port), "--bind-address", "127.0.0.1"]
    process = subprocess.Popen([*command, *run], env=environment(source), stderr=subprocess.DEVNULL)
    try:
        livez = wait_for(process, port, "/livez", is_plain=is_plain)
        readyz = wait_for(process, port, "/readyz", is_plain=is_plain)
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)
    return Start(livez, readyz, ended_milliseconds([*command, "--help"], source))


def ended_milliseconds(command: Sequence[str], source: Path) -> float:
    """CPU milliseconds of a command that ends by itself."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment(source), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e3


def kubeconfig_for(url: str, folder: Path) -> Path:
    path = folder / "kubeconfig"
    tree = {
        "current-context": "start",
        "contexts": [{"name": "start", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "a-token"}}],
    }
    path.write_text(json.dumps(tree), encoding="utf-8")
    return path


async def measure(python: str, sources: Sequence[Path], rounds: int, *, is_plain: bool) -> dict[Path, list[Start]]:
    """All starts, by source; the first of each source, which may compile, does not count."""
    starts: dict[Path, list[Start]] = {source: [] for source in sources}
    async with EmbeddedAPIServer() as server:
        with tempfile.TemporaryDirectory() as folder:
            kubeconfig = kubeconfig_for(server.url, Path(folder))
            for number in range(rounds + 1):
                for source in sources:
                    port = free_port()
                    one = await asyncio.to_thread(start_once, python, source, kubeconfig, port, is_plain=is_plain)
                    if number:
                        starts[source].append(one)
    return starts


def free_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def line(name: str, starts: Sequence[Start], field: str) -> str:
    values = sorted(getattr(one, field) for one in starts)
    return f"{name:8} {field:8} median {statistics.median(values):7.0f} ms   {values[0]:7.0f} to {values[-1]:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turn")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--plain", action="store_true", help="plain HTTP, and no election")
    args = parser.parse_args()
    sources = {"this": ROOT} | ({"beside": args.beside.resolve()} if args.beside else {})
    starts = asyncio.run(measure(args.python, list(sources.values()), args.rounds, is_plain=args.plain))
    for field in ("livez", "readyz", "help"):
        for name, source in sources.items():
            print(line(name, starts[source], field))
        if args.beside:
            this, beside = (statistics.median(getattr(one, field) for one in starts[source]) for source in starts)
            print(f"         {field:8} this / beside {this / beside:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
