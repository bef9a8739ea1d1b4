"""`make test-changed` picks the tests that a change concerns, and says nothing of those that it does not see."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests import picking
from tests.picking import Tree, changed_files

FILES: Final = {
    "kscheduler/state/__init__.py": "from kscheduler.state.cache import Cache\n",
    "kscheduler/state/cache.py": "class Cache: ...\n",
    "kscheduler/state/queue/heap.py": "def push(): ...\n",
    "kscheduler/server/page.py": "from kscheduler.state.cache import Cache\n",
    "kscheduler/server/page.html": "",
    "tests/conftest.py": "",
    "tests/builders.py": "from kscheduler.state import (\n    Cache,  # the whole state\n)\n",
    "tests/state/test_cache.py": "",
    "tests/state/queue/test_heap.py": "",
    "tests/server/conftest.py": "",
    "tests/server/test_page.py": "import kscheduler.server.page\n",
    "tests/plugins/stage.py": "import tests.builders\n",
    "tests/plugins/test_fit.py": "def test() -> None:\n    from tests.plugins import stage\n",
    "tests/docs/test_links.py": "PAGE = 'docs/queue.md'\n",
    "tests/cli/test_words.py": "from kscheduler.state.queue import heap\n",
    "tests/cli/test_pages.py": "PAGES = ['queue.md']\n",
    "tests/e2e/test_all.py": "from kscheduler.state.queue import heap\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(tmp_path)


@pytest.mark.parametrize(
    ("changed", "picked"),
    [
        pytest.param("tests/state/test_cache.py", {"state/test_cache"}, id="a test"),
        pytest.param("tests/plugins/stage.py", {"plugins/test_fit"}, id="what a test imports"),
        pytest.param("tests/server/conftest.py", {"server/test_page"}, id="fixtures of a folder"),
        pytest.param(
            "kscheduler/state/queue/heap.py",
            {"state/queue/test_heap", "cli/test_words"},
            id="its folder, who imports it",
        ),
        pytest.param(
            "kscheduler/state/cache.py",
            {"state/test_cache", "state/queue/test_heap", "plugins/test_fit"},
            id="through a package and a helper, and not through the product",
        ),
        pytest.param("kscheduler/server/page.html", {"server/test_page"}, id="data of a package"),
        pytest.param("docs/queue.md", {"docs/test_links", "cli/test_pages"}, id="who names a page, and its folder"),
        pytest.param("kscheduler/state/queue/gone.py", {"state/queue/test_heap"}, id="a deleted module"),
        pytest.param("LICENSE", set(), id="what no test reads"),
    ],
)
def test_a_change_picks(changed: str, picked: set[str], tree: Tree) -> None:
    assert tree.picked([changed]) == {f"tests/{name}.py" for name in picked}


@pytest.mark.parametrize("name", sorted(picking.ALL))
def test_what_all_tests_depend_on_picks_all_but_the_suites_apart(name: str, tree: Tree) -> None:
    assert tree.picked(["LICENSE", name]) == set(tree.tests)
    assert not any(test.startswith("tests/e2e/") for test in tree.tests)


def test_what_has_changed_is_the_working_tree_against_where_the_branch_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=n", "-c", "user.email=e")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(picking, "ROOT", tmp_path)
    git("init", "--initial-branch=main")
    for name in ("same", "old"):
        (tmp_path / name).write_text("")
    git("add", ".")
    git("commit", "--message=first")
    git("checkout", "-b", "topic")
    (tmp_path / "committed").write_text("")
    git("add", ".")
    git("commit", "--message=second")
    (tmp_path / "old").unlink()
    (tmp_path / "new").write_text("")
    assert sorted(changed_files(None)) == ["committed", "new", "old"]
    assert sorted(changed_files("topic")) == ["new", "old"]
    with pytest.raises(SystemExit, match="git knows no commit nowhere"):
        changed_files("nowhere")
