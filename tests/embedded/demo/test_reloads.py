"""A changed file that is refused is a line of the terminal, not of the log alone; so is the end of that."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

from kscheduler.api.machinery.resources import PODS
from kscheduler.embedded.apiserver.server import EmbeddedAPIServer
from kscheduler.embedded.demo.reloads import ReloadLines, telling_reloads
from kscheduler.embedded.demo.report import telling_unserved
from tests.builders import pod_tree

FILE = "/tmp/kscheduler-scheduler-x/config.yaml"
SYNTAX = "--plugin: /home/me/tens.py:5: SyntaxError: invalid syntax"


def entry(message: str, **fields: Any) -> bytes:
    return json.dumps({"level": "error", "msg": message, "logger": "config", **fields}, separators=(",", ":")).encode()


def told(*lines: bytes) -> list[str]:
    reloads = ReloadLines()
    return [text for line in lines if (text := reloads.message_for(line))]


def test_a_refusal_and_its_end_are_a_line_each() -> None:
    lines = told(
        entry("config_taken_over", file=FILE, changed=["plugin Tens"]),
        entry("config_refused", file=FILE, reason=SYNTAX),
        entry("config_kept", file=FILE, problems=1),
        entry("node_failed", err='"msg":"config_kept"'),
        b'"msg":"config_kept" is no JSON',
        entry("config_taken_over", file=FILE, changed=["plugin Tens"]),
        entry("config_taken_over", file=FILE, changed=["plugin Tens"]),
        entry("config_refused", file=FILE, reason=SYNTAX),
        entry("config_kept", file=FILE, problems=1),
        entry("config_unchanged", file=FILE),
    )
    refused = f"a changed file was refused, and the scheduler goes on as before: {SYNTAX}"
    taken = "a changed file is taken over: plugin Tens"
    assert lines == [
        taken,
        refused,
        taken,
        taken,
        refused,
        "the changed file is taken over: nothing differs from before",
    ]


def test_a_plugin_that_fails_is_a_line_once_for_each_file_that_is_taken_over() -> None:
    failed = entry("plugin_failed", plugin="Tens", extension_point="Score", err="no attribute 'lables' (tens.py:5)")
    line = "plugin Tens fails (Score): no attribute 'lables' (tens.py:5)"
    taken = "a changed file is taken over: plugin Tens"
    assert told(failed, failed, entry("config_taken_over", changed=["plugin Tens"]), failed, failed) == [
        line,
        taken,
        line,
    ]


def test_of_several_mistakes_the_first_is_named_with_its_place() -> None:
    (line,) = told(
        entry("config_refused", file="my.yaml", line=7, field="profiles[0].plugins", reason="no such plugin"),
        entry("config_refused", file="my.yaml", line=9, reason="another"),
        entry("config_kept", file="my.yaml", problems=2),
    )
    assert line.endswith("as before: my.yaml:7: profiles[0].plugins: no such plugin (and 1 more, in its log)")


async def test_lines_are_told_once_they_are_complete(tmp_path: Path) -> None:
    log, out = tmp_path / "scheduler.log", io.StringIO()
    refusal = entry("config_refused", file=FILE, reason=SYNTAX) + b"\n" + entry("config_kept", file=FILE, problems=1)
    log.write_bytes(refusal[:-5])
    async with telling_reloads(log, out):
        await asyncio.sleep(0.05)
        assert out.getvalue() == ""
        log.write_bytes(refusal + b"\n")
        async with asyncio.timeout(10):
            while not out.getvalue():  # noqa: ASYNC110  a file tells nobody
                await asyncio.sleep(0.01)
    assert out.getvalue().startswith("a changed file was refused")
    assert out.getvalue().count("\n") == 1


class Gone(io.StringIO):
    """A terminal that nobody reads any more."""

    tries = 0

    def flush(self) -> None:
        self.tries += 1
        raise BrokenPipeError(32, "Broken pipe")


def test_a_pod_can_be_created_that_no_profile_serves_though_the_terminal_is_gone() -> None:
    server, out = EmbeddedAPIServer(seed=1), Gone()
    with telling_unserved(server.registry.store, ("mine",), out):
        server.registry.create(PODS, "default", pod_tree("p", schedulerName="other"))
    assert out.tries == 1


async def test_a_terminal_that_is_gone_does_not_end_the_cluster(tmp_path: Path) -> None:
    """`kscheduler cluster --schedule | head`."""
    log, out = tmp_path / "scheduler.log", Gone()
    refusal = entry("config_refused", file=FILE, reason=SYNTAX) + b"\n" + entry("config_kept", file=FILE, problems=1)
    log.write_bytes(refusal + b"\n")
    async with telling_reloads(log, out):
        async with asyncio.timeout(10):
            while not out.tries:  # noqa: ASYNC110  a file tells nobody
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
