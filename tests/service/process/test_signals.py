"""What signals and lost standard streams do to the service as a process."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kscheduler.api.releases import RELEASE
from kscheduler.embedded.apiserver import EmbeddedAPIServer
from kscheduler.embedded.apiserver.faults import InjectedFault
from kscheduler.service import signals
from tests.builders import node_tree, pod_tree
from tests.effort import sampled
from tests.service.running import node_of, put, until

PROCESSES = pytest.mark.slow("starts kscheduler as a process, with all its imports")

REPOSITORY = Path(__file__).parents[3]
SECONDS = 40.0


class Running:
    """A scheduler's process, and what it has logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[str] = []

    async def until_said(self, word: str) -> str:
        """Read its log up to a line with this word; the line."""
        assert self.process.stderr is not None
        async with asyncio.timeout(SECONDS):
            while raw := await self.process.stderr.readline():
                self.lines.append(raw.decode())
                if word in self.lines[-1]:
                    return self.lines[-1]
        raise AssertionError(f"it ended without {word}: {''.join(self.lines[-5:])}")

    async def end(self) -> tuple[int, list[str]]:
        """Its exit code, and the messages of the rest of its log."""
        async with asyncio.timeout(SECONDS):
            _, rest = await self.process.communicate()
            lines = (rest or b"").decode().splitlines()
            return self.process.returncode or 0, [
                json.loads(one)["msg"] if one.startswith("{") else one for one in lines
            ]


@asynccontextmanager
async def scheduler(
    server: EmbeddedAPIServer,
    preexec: Callable[[], None] | None = None,
    stderr: int | None = subprocess.PIPE,
    flags: tuple[str, ...] = (),
) -> AsyncIterator[Running]:
    arguments = ["-m", "kscheduler", "run", "--master", server.url, "--secure-port", "0", "--insecure-port", "0"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, "--log-format", "json", *flags, cwd=REPOSITORY, stderr=stderr, preexec_fn=preexec
    )
    try:
        yield Running(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize("number", sampled([signal.SIGTERM, signal.SIGINT], 1, "starts a process"))
async def test_a_signal_to_end_lets_the_binds_that_were_sent_come_back(number: signal.Signals) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with scheduler(server) as running:
            await running.until_said('"scheduling"')
            server.faults.add(InjectedFault("delay", method="POST", path="*/binding", seconds=1.0))
            put(server, "pods", pod_tree("p"))
            async with asyncio.timeout(SECONDS):
                while not server.faults.happened.get("delay"):  # noqa: ASYNC110  # a request that waits tells nobody
                    await asyncio.sleep(0.01)
            running.process.send_signal(number)
            code, messages = await running.end()
        assert code == 0, messages
        assert node_of(server, "p") == "node"
        assert "requested_to_terminate" in messages
        assert "stopping" in messages


@PROCESSES
async def test_a_second_signal_ends_at_once() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with scheduler(server) as running:
            await running.until_said('"scheduling"')
            server.faults.add(InjectedFault("delay", method="POST", path="*/binding", seconds=30.0))
            put(server, "pods", pod_tree("p"))
            async with asyncio.timeout(SECONDS):
                while not server.faults.happened.get("delay"):  # noqa: ASYNC110  # as above
                    await asyncio.sleep(0.01)
            running.process.send_signal(signal.SIGINT)
            await running.until_said("requested_to_terminate")
            running.process.send_signal(signal.SIGINT)
            code, messages = await running.end()
        assert code == 1
        assert "ending_at_once" in messages
        server.faults.clear()


@PROCESSES
async def test_under_nohup_a_hangup_is_ignored() -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with scheduler(server, ignore_hangups) as running:
            await running.until_said('"scheduling"')
            running.process.send_signal(signal.SIGHUP)
            put(server, "pods", pod_tree("p"))
            await until(server, lambda: node_of(server, "p") == "node")
            running.process.send_signal(signal.SIGTERM)
            assert (await running.end())[0] == 0


CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: NAME}]
"""


async def test_a_hangup_reads_the_configuration_again(tmp_path: Path) -> None:
    """With --config-reload=signal nothing but the signal does; flags win over the file as at the start."""
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.replace("NAME", "before"))
    flags = ("--config", str(file), "--config-reload", "signal", "--leader-elect=false")
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with scheduler(server, flags=flags) as running:
            await running.until_said('"scheduling"')
            put(server, "pods", pod_tree("p", schedulerName="after"))
            file.write_text(CONFIG.replace("NAME", "after"))
            running.process.send_signal(signal.SIGHUP)
            taken = json.loads(await running.until_said('"config_taken_over"'))
            assert (taken["profiles_added"], taken["profiles_removed"]) == (["after"], ["before"])
            assert [line for line in running.lines if '"config_reload_requested"' in line]
            await until(server, lambda: node_of(server, "p") == "node")
            file.write_text("profiles: {")
            running.process.send_signal(signal.SIGHUP)
            refused = json.loads(await running.until_said('"config_refused"'))
            assert (refused["file"], refused["line"]) == (str(file), 2)
            running.process.send_signal(signal.SIGTERM)
            assert (await running.end())[0] == 0


@pytest.mark.parametrize("has_file", sampled([False, True], 1, "starts a process"), ids=["no-file", "reload-off"])
async def test_a_hangup_without_a_file_to_read_asks_for_the_version_and_ends_nothing(
    tmp_path: Path, has_file: bool
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(CONFIG.replace("NAME", "kscheduler"))
    flags = ("--config", str(file), "--config-reload=off") if has_file else ()
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with scheduler(server, flags=flags) as running:
            await running.until_said('"scheduling"')
            running.process.send_signal(signal.SIGHUP)
            said = json.loads(await running.until_said('"nothing_to_reload"'))
            assert said["reason"] == signals.NOTHING_TO_RELOAD
            asked = json.loads(await running.until_said('"server_version_asked"'))
            assert (asked["server_version"], asked["before"]) == (RELEASE, RELEASE)
            put(server, "pods", pod_tree("p"))
            await until(server, lambda: node_of(server, "p") == "node")
            running.process.send_signal(signal.SIGTERM)
            assert (await running.end())[0] == 0


@pytest.mark.parametrize("has_file", [True, False])
def test_a_hangup_of_the_terminal_itself_ends_it(monkeypatch: pytest.MonkeyPatch, has_file: bool) -> None:
    """Who closes the window of a scheduler does not want it to live on unseen."""
    terminal = [True, True, False]
    monkeypatch.setattr(signals, "_has_terminal", lambda: terminal.pop(0))

    class Reloader:
        is_on = has_file
        queried = 0

        def ask(self) -> None:
            self.queried += 1

    async def hang_up_twice() -> tuple[int, bool]:
        stop, reloader = signals.Stop(), Reloader()
        with signals.ending(stop), signals.reloading(reloader, stop):
            for _ in range(2):
                assert not stop.is_set()
                os.kill(os.getpid(), signal.SIGHUP)
                await asyncio.sleep(0.05)
            return reloader.queried, stop.is_set()

    assert asyncio.run(hang_up_twice()) == (1, True)


IGNORED_IN_GO = (
    *(signal.SIGUSR1, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGIO, signal.SIGPWR, signal.SIGPIPE),
    *(signal.SIGXCPU, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT),
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)


@PROCESSES
@pytest.mark.parametrize("plugin", [(), ("--plugin", "benchmarks/policies/columns.py")], ids=["", "supervised-plugins"])
async def test_a_signal_that_nobody_uses_does_not_end_it(plugin: tuple[str, ...]) -> None:
    """As in Go; also SIGALRM, which plugins' time budgets use, before and after the first plugin is called."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with scheduler(server, flags=plugin) as running:
            await running.until_said('"scheduling"')
            for name in ("p", "q"):
                for number in IGNORED_IN_GO:
                    running.process.send_signal(number)
                put(server, "pods", pod_tree(name))
                await until(server, lambda name=name: node_of(server, name) == "node")  # type: ignore[misc]
            running.process.send_signal(signal.SIGTERM)
            assert (await running.end())[0] == 0


SHADOW = ("-m", "kscheduler", "shadow", "--insecure-port", "0", "--master")
CLUSTER = ("-m", "kscheduler", "cluster", "--nodes", "1", "--port", "0")


@PROCESSES
@pytest.mark.parametrize("verb", ["shadow", "cluster"])
async def test_neither_does_it_end_a_shadow_or_an_embedded_cluster(verb: str) -> None:
    async with EmbeddedAPIServer(seed=1) as server:
        flags = (*SHADOW, server.url) if verb == "shadow" else CLUSTER
        process = await asyncio.create_subprocess_exec(
            sys.executable, *flags, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            assert process.stdout is not None
            await process.stdout.readline()  # it has begun
            for number in (signal.SIGUSR2, *IGNORED_IN_GO):
                process.send_signal(number)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(SECONDS):
                output, _ = await process.communicate()
            assert process.returncode in (0, 130, 143), output  # what SIGTERM makes of it, then as later
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@PROCESSES
@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGABRT, signal.SIGSYS], ids=lambda number: number.name)
async def test_the_stacks_are_shown_before_an_end_by_sigquit_or_a_fault(number: signal.Signals) -> None:
    async with EmbeddedAPIServer(seed=1) as server, scheduler(server) as running:
        await running.until_said('"scheduling"')
        running.process.send_signal(number)
        code, lines = await running.end()
        assert code == -number
        assert any("most recent call first" in line for line in lines)


@PROCESSES
async def test_a_log_that_nobody_reads_does_not_end_it() -> None:
    """As in `kscheduler run 2>&1 | head`: the pipe is broken after the first line."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        reading, writing = os.pipe()
        async with scheduler(server, stderr=writing) as running:
            os.close(writing)
            with os.fdopen(reading, "rb") as log:
                await asyncio.to_thread(log.readline)
            put(server, "pods", pod_tree("p"))
            await until(server, lambda: node_of(server, "p") == "node")
            running.process.send_signal(signal.SIGTERM)
            assert (await running.end())[0] == 0


def standard_streams_of(pid: int) -> list[str]:
    return [str(Path(f"/proc/{pid}/fd/{number}").readlink()) for number in (0, 1, 2)]


def ignore_hangups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def close_all_three() -> None:
    for descriptor in (0, 1, 2):
        os.close(descriptor)


@PROCESSES
async def test_closed_standard_streams_do_not_end_it() -> None:
    """As in `kscheduler run <&- >&- 2>&-`; what is opened next must not become its standard error either."""
    async with EmbeddedAPIServer(seed=1) as server:
        put(server, "nodes", node_tree("node"))
        async with scheduler(server, close_all_three, stderr=None) as running:
            put(server, "pods", pod_tree("p"))
            await until(server, lambda: node_of(server, "p") == "node")
            assert standard_streams_of(running.process.pid) == [os.devnull] * 3
            running.process.send_signal(signal.SIGTERM)
            assert (await running.end())[0] == 0
