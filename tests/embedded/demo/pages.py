"""What pages tell a person to type, typed as it stands there."""

import asyncio
import re
import shlex
import shutil

import pytest

from tests.embedded.demo.programs import REPOSITORY

needs_kubectl = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="kubectl is not on PATH: what the page has typed with it is UNTESTED"
)


def section_of(page: str, heading: str) -> str:
    """What is below the heading, up to the next one."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    assert text.count(f"\n{heading}\n") == 1
    return re.split(r"\n##+ ", text.partition(f"\n{heading}\n")[2])[0]


def commands_of(page: str, heading: str) -> list[list[str]]:
    """The commands of a section, by block."""
    return [
        block.strip().splitlines() for block in re.findall(r"```sh\n(.*?)```", section_of(page, heading), re.DOTALL)
    ]


async def typed(url: str, command: str) -> str:
    """What a kubectl command prints, about the cluster at this address. It must succeed."""
    program, *words = shlex.split(command, comments=True)
    process = await asyncio.create_subprocess_exec(
        *(program, "--server", url, *words),
        cwd=REPOSITORY,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(90):
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()
