"""docs/first-change.md: its example can be made as it stands, and does what the page says."""

import re
import shutil
import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from tests.docs.source_index import ROOT, text_of

PAGE = text_of("docs/first-change.md")
DIFFS = re.findall(r"^```diff\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def applied(folder: Path, *flags: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["git", "apply", *flags], cwd=folder, input="".join(DIFFS).encode(), check=False)


def test_the_example_applies_and_reads_what_was_no_price(tmp_path: Path) -> None:
    paths = [path for diff in DIFFS for path in re.findall(r"^\+\+\+ b/(\S+)$", diff, re.MULTILINE)]
    assert len(paths) == 2
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    # Anyone who is trying the example has made the change already.
    is_made = applied(tmp_path, "--reverse", "--check").returncode == 0
    assert is_made or applied(tmp_path).returncode == 0
    (code,) = [path for path in paths if path.startswith("kscheduler/")]
    spec = spec_from_file_location("node_cost_with_a_sign", tmp_path / code)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert [module.parse_price(text) for text in ("$2", "2", "$$2")] == [2_000_000, 2_000_000, None]


def test_each_target_of_the_makefile_that_ci_runs_on_every_change_is_named() -> None:
    targets = set(re.findall(r"`make ([a-z-]+)`", PAGE))
    assert {"test-fast", "test-changed", "test", "test-all", "check", "fmt"} <= targets
