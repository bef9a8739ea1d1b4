"""The site that `make docs` builds: it has every page and every public name, and a link that leads nowhere fails it."""

import re
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.docs.source_index import ROOT
from tests.effort import IS_CI
from tests.framework.public_surface import SHORT, rows

DOCS: Final = ROOT / "docs"
INDEXES: Final = ("index.md", "reference/index.rst")


def build(docs: Path, output: Path) -> subprocess.CompletedProcess[str]:
    """Build as `make docs` does. Skips where there is no Sphinx, except in CI, which installs it."""
    if find_spec("sphinx") is None:
        if IS_CI:
            pytest.fail("Sphinx is missing: make ready installs it")
        pytest.skip("needs Sphinx: make docs installs it")
    recipe = (ROOT / "Makefile").read_text().partition("\ndocs: ")[2].splitlines()[1]
    flags = [word for word in recipe.split() if word.startswith("--") and word != "--doctree-dir"]
    command = [sys.executable, "-m", "sphinx", *flags, "--doctree-dir", output / ".trees", docs, output]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=600)


def listed(index: str) -> list[str]:
    """The pages in the tables of contents of a page, from the root of the site."""
    found: list[str] = []
    for block in re.split(r"^(?:```\{|\.\. )toctree", (DOCS / index).read_text(), flags=re.MULTILINE)[1:]:
        names = [line.strip() for line in block.partition("```\n")[0].splitlines()]
        found += [(Path(index).parent / name).as_posix() for name in names if re.fullmatch(r"[\w/-]+", name)]
    return found


def test_each_page_is_in_a_table_of_contents_once() -> None:
    pages = {
        path.relative_to(DOCS).with_suffix("").as_posix()
        for suffix in ("md", "rst")
        for path in DOCS.rglob(f"*.{suffix}")
    }
    assert Counter(page for index in INDEXES for page in listed(index)) == Counter(pages - {"index"})


def test_each_module_with_a_public_name_is_in_the_reference_once() -> None:
    text = "\n".join(path.read_text() for path in (DOCS / "reference").glob("*.rst"))
    documented = re.findall(r"^\.\. public-names:: ([\w.]+)$", text, re.MULTILINE)
    assert Counter(documented) == Counter(module for module, _ in rows("Names"))


def test_links_lead_to_pages_or_into_the_repository_and_one_that_leads_nowhere_fails(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for name in ("kscheduler", "tests", "pyproject.toml", "CHANGELOG.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("extensions", "conf.py", "plugin-api.md", "project/changelog.md"):
        (docs / name).parent.mkdir(exist_ok=True)
        (shutil.copytree if (DOCS / name).is_dir() else shutil.copyfile)(DOCS / name, docs / name)
    contents = "# Start\n\n```{toctree}\nplugin-api\nproject/changelog\n```\n\n"
    links = (
        "[code](../kscheduler/api/core.py) [folder](../tests) [part](plugin-api.md#members) [news](../CHANGELOG.md)\n"
    )
    (docs / "index.md").write_text(contents + links)
    sound = build(docs, tmp_path / "site")
    assert "index.md" not in sound.stderr
    html = (tmp_path / "site" / "index.html").read_text()
    for address in (
        "/blob/main/kscheduler/api/core.py",
        "/tree/main/tests",
        "plugin-api.html#members",
        "project/changelog.html",
    ):
        assert f'{address}"' in html

    (docs / "index.md").write_text(
        contents + "[one](plugin-api.md#nowhere) [two](nowhere.md) [three](../kscheduler/nowhere.py)\n"
    )
    broken = build(docs, tmp_path / "site")
    assert broken.returncode != 0
    assert len(re.findall("index.md:.*WARNING: .*nowhere", broken.stderr)) == 3


@pytest.mark.slow("reads all pages and the source of all public names")
def test_the_site_builds_and_has_each_public_name_and_member(tmp_path: Path) -> None:
    built = build(DOCS, tmp_path)
    assert (built.returncode, built.stderr) == (0, "")
    inventory = zlib.decompress((tmp_path / "objects.inv").read_bytes().split(b"zlib.\n", 1)[1]).decode()
    known = {line.split(" ")[0] for line in inventory.splitlines()}
    members = dict(rows("Members"))
    promised = {(module, name) for module, names in rows("Names") if module != SHORT for name in names}
    missing = [f"{module}.{name}" for module, name in promised if f"{module}.{name}" not in known]
    missing += [
        f"{name}.{member}"
        for module, name in promised
        for member in members.get(name, ())
        if f"{module}.{name}.{member}" not in known
    ]
    assert missing == []
