"""The README's first hour: what it has typed works, and its samples are what is printed."""

import asyncio
import re
import shlex
from itertools import takewhile
from pathlib import Path
from typing import Final

import pytest

from tests.embedded.demo.pages import commands_of, needs_kubectl, section_of, typed
from tests.embedded.demo.programs import REPOSITORY, kscheduler

PROCESSES = pytest.mark.slow("a cluster, a scheduler and kubectl as processes, as README has them typed")

PAGE: Final = "README.md"
LEFT_OUT: Final = "..."


def blocks(heading: str, language: str = "") -> list[str]:
    """Fenced blocks of the language in a section."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", section_of(PAGE, heading), re.DOTALL | re.MULTILINE)
    return [block for its_language, block in fenced if its_language == language]


def is_sample_of(sample: list[str], printed: list[str]) -> bool:
    """Whether the lines are those that were printed; a line of dots stands for any, dots at an end for the rest."""
    if not sample:
        return not printed
    if sample[0].strip() == LEFT_OUT:
        return any(is_sample_of(sample[1:], printed[at:]) for at in range(len(printed) + 1))
    if not printed:
        return False
    begins = sample[0].removesuffix(LEFT_OUT)
    is_same = printed[0] == sample[0] if begins == sample[0] else printed[0].startswith(begins)
    return is_same and is_sample_of(sample[1:], printed[1:])


@pytest.mark.parametrize(
    ("sample", "printed", "is_it"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["a", "  ...", "d"], ["a", "b", "c", "d"], True),
        (["a", "...", "d"], ["a", "b", "c"], False),
        (["a b ..."], ["a b c"], True),
        (["a b ..."], ["a c"], False),
        (["a", "..."], ["a", "b"], True),
    ],
)
def test_what_a_sample_is(sample: list[str], printed: list[str], is_it: bool) -> None:
    assert is_sample_of(sample, printed) == is_it


def arguments(command: str) -> list[str]:
    """Of a command of kscheduler."""
    program, *words = shlex.split(command, comments=True)
    assert program == "kscheduler"
    return words


async def answer(url: str, *words: str, cwd: Path = REPOSITORY) -> str:
    """What a command of kscheduler prints about the cluster at this address. It must succeed."""
    async with kscheduler(*words, "--master", url, cwd=cwd) as program:
        assert await program.end() == 0, program.output
    return program.output


@PROCESSES
@needs_kubectl
async def test_the_samples_of_explain_are_what_it_prints() -> None:
    _, (start, fits), (apply, pending) = commands_of(PAGE, "## Ask why")
    first, second = (block.splitlines() for block in blocks("## Ask why"))
    async with kscheduler(*arguments(start), "--port", "0") as cluster:
        await cluster.until("its log: ")
        url = cluster.api_url()
        printed = (await answer(url, *arguments(fits))).splitlines()
        assert is_sample_of([*first, LEFT_OUT], printed), "\n".join(printed)
        await typed(url, apply)
        await typed(url, "kubectl wait --for=jsonpath={.status.replicas}=1 statefulset/arm --timeout=60s")
        await typed(url, "kubectl wait --for=condition=PodScheduled=False pod/arm-0 --timeout=60s")
        text = await answer(url, *arguments(pending))
        assert f"kubectl --server={url} patch statefulset arm" in text
        as_with_kubeconfig = text.replace(f" --server={url}", "").splitlines()
        assert is_sample_of(second, as_with_kubeconfig), text


@PROCESSES
@needs_kubectl
async def test_the_commands_without_a_cluster_work() -> None:
    (start,), commands = commands_of(PAGE, "### Without a cluster")
    async with kscheduler(*arguments(start), "--nodes", "3", "--port", "0") as cluster:
        await cluster.until("its log: ")
        url = cluster.api_url()
        *with_kubectl, pending = commands
        said = [await typed(url, command) for command in takewhile(lambda line: line.startswith("kubectl "), commands)]
        assert len(said) == len(with_kubectl)
        assert "successfully rolled out" in "".join(said)
        assert "node/node-000 drained" in "".join(said)
        async with asyncio.timeout(60):
            while "no pod is pending" not in await answer(url, *arguments(pending)):  # noqa: ASYNC110 - asks a server
                await asyncio.sleep(0.1)


@PROCESSES
async def test_the_policy_of_six_lines_gives_its_points_and_is_enabled_as_the_readme_says(tmp_path: Path) -> None:
    (policy,) = blocks("## A policy of your own", "python")
    (configuration,) = blocks("## A policy of your own", "yaml")
    (tmp_path / "cheap.py").write_text(policy)
    (tmp_path / "config.yaml").write_text(configuration)
    (tmp_path / "deploy").symlink_to(REPOSITORY / "deploy")
    pod = (REPOSITORY / "deploy/examples/pod.yaml").read_text()
    (tmp_path / "thrifty.yaml").write_text(pod.replace("schedulerName: kscheduler\n", "schedulerName: thrifty\n"))
    (explain, run), *_ = commands_of(PAGE, "## A policy of your own")
    (with_configuration,) = re.findall(
        r"`kscheduler run (--config [^`]+)`", section_of(PAGE, "## A policy of your own")
    )
    assert run.startswith("kscheduler run --plugin cheap.py ")
    async with kscheduler("cluster", "--nodes", "3", "--port", "0") as cluster:
        await cluster.until("no scheduler runs")
        explained = await answer(cluster.api_url(), *arguments(explain), cwd=tmp_path)
        assert re.search(r"^    PreferCheap  ", explained, re.MULTILINE), explained
        words = ["explain", "-f", "thrifty.yaml", *shlex.split(with_configuration)]
        explained = await answer(cluster.api_url(), *words, cwd=tmp_path)
        assert "PreferCheap (weight 5)" in explained, explained
