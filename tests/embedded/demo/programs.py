"""kscheduler's commands as processes, for tests of what a person sees."""

import asyncio
import os
import re
import shlex
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


class Program:
    """`kscheduler ...` as a user starts it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.output = ""

    async def until(self, text: str) -> None:
        """Read its output until a line holds `text`."""
        assert self.process.stdout is not None
        async with asyncio.timeout(60):
            while text not in self.output:
                line = await self.process.stdout.readline()
                assert line, f"it ended before {text!r}:\n{self.output}"
                self.output += line.decode()

    async def end(self) -> int:
        """Its exit code; the rest of its output is kept."""
        async with asyncio.timeout(60):
            rest, _ = await self.process.communicate()
        self.output += rest.decode()
        assert self.process.returncode is not None
        return self.process.returncode

    def api_url(self) -> str:
        """Of the embedded cluster."""
        (port,) = re.findall(r"nodes on http://127.0.0.1:(\d+)", self.output)
        return f"http://127.0.0.1:{port}"

    def urls(self) -> set[tuple[str, int]]:
        """(host, port) of all servers that it names."""
        return {(host, int(port)) for host, port in re.findall(r"http://([\d.]+):(\d+)", self.output)}


@asynccontextmanager
async def kscheduler(*arguments: str, cwd: Path | None = None) -> AsyncIterator[Program]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "kscheduler", *arguments),  # as the console script: no working directory
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        cwd=cwd,
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()


def answers(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0


def children(pid: int) -> list[int]:
    """Processes that a process has started and that still run."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for listed in found for child in listed.read_text().split()]


def command_of(pid: int) -> list[str]:
    """The words of a process's command line."""
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


async def typed_as_it_stands(command: str) -> None:
    """In a shell of the repository; where the virtual environment is elsewhere, it is on the PATH."""
    search = f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"
    process = await asyncio.create_subprocess_exec(
        *shlex.split(command),
        env=os.environ | {"PATH": search, "PYTHONPATH": str(REPOSITORY)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
