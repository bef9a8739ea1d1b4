"""`kubectl kscheduler VERB` starts without what the running service has: a scheduler's rules and plugins, aiohttp."""

import subprocess
import sys

import pytest

_SCRIPT = """
import sys
from kscheduler.cli.kubectl_plugin import build_parser
build_parser(sys.argv[1])
print(*sorted(sys.modules))
"""
_OF_A_SCHEDULER = (
    *("numpy", "kscheduler.scheduling", "kscheduler.plugins", "kscheduler.state", "kscheduler.embedded"),
    *("kscheduler.config.loader", "kscheduler.assembly", "structlog", "kubernetes_asyncio", "aiohttp"),
)


@pytest.mark.parametrize("verb", ["why", "pending", "nodes", "top", "whatif"])
def test_a_verb_that_the_service_answers_imports_no_scheduler(verb: str) -> None:
    """Modules are counted and not time: with them each call took 1.5 s of CPU before it asked anybody."""
    answer = subprocess.run([sys.executable, "-c", _SCRIPT, verb], capture_output=True, text=True, check=True)
    imported = answer.stdout.split()
    assert [name for name in _OF_A_SCHEDULER if name in imported] == []
    assert len(imported) < 420
