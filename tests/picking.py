"""The tests that belong to what has changed: `make test-changed` runs them, `python -m tests.picking` lists them.

A changed file picks:

    kscheduler/state/queue/x.py   the tests in tests/state/queue, or in the nearest such folder above it (tests/state),
                                  and every other test that imports x, itself or through files of tests/
    tests/state/test_x.py         itself
    tests/state/stage.py          the tests that import it, directly or through files of tests/
    a conftest.py                 the tests in its folder
    pyproject.toml                all tests
    docs/x.md, Makefile, x.yaml   the tests whose text names the file, and those of the folder that is called like
                                  its own (docs/x.md: tests/docs)

What has changed is the working tree, untracked files included, against where the branch left `main` (BASE).

The limit, which keeps the choice small: within kscheduler an import is not followed. A change of the queue does not
pick the tests of the service, which uses the queue without naming it: `make test` runs these. A name that a package's
`__init__` hands on counts as imported from the module that defines it.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path, PurePath
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CODE: Final = ("kscheduler", "benchmarks", "deploy", "tests")
# Suites with targets of their own; `norecursedirs` in pyproject.toml leaves them out of `make test`, too.
APART: Final = ("tests/e2e/", "tests/deploy/chart/")
ALL: Final = frozenset({"pyproject.toml", "tests/conftest.py"})

# Read from the text: parsing two thousand files takes seconds. A string that looks like an import picks too much.
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|([^\n]*))|import[ \t]+([^\n]*))", re.MULTILINE
)
_NAME: Final = re.compile(r"^\s*([\w.]+)(?:\s+as\s+\w+)?\s*$")


class Tree:
    """The files of a checkout, and who imports whom."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.files = {
            path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
            for folder in CODE
            for path in sorted((root / folder).rglob("*.py"))
        }
        self.tests = [name for name in self.files if _is_test(name)]

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The files whose definitions a file imports."""
        return {
            name: {found for module, what in _imported(text) for found in self._defining(module, what)}
            for name, text in self.files.items()
        }

    def picked(self, changed: Iterable[str]) -> set[str]:
        """The tests that belong to changed files, which are paths from the root."""
        found: set[str] = set()
        for name in changed:
            if name in ALL:
                return set(self.tests)
            found.update(self._picked_by(name))
        return found

    def _picked_by(self, name: str) -> Iterator[str]:
        path = PurePath(name)
        if path.name == "conftest.py":
            yield from self._below(path.parent)
        elif path.parts[0] == "tests" and path.suffix == ".py":
            yield from self._importing(name)
        elif path.suffix == ".py":
            yield from self._importing(name)
            yield from self._beside(path)
        else:
            yield from (test for test in self.tests if path.name in self.files[test])
            yield from self._beside(path)

    def _importing(self, name: str) -> set[str]:
        """The tests that import a file, through files of tests/ as far as that goes; a test itself is one of them."""
        seen, todo = {name}, [name]
        while todo:
            one = todo.pop()
            users = [user for user, used in self.imports.items() if one in used and user.startswith("tests/")]
            todo += [user for user in users if user not in seen]
            seen.update(users)
        return seen.intersection(self.tests)

    def _beside(self, path: PurePath) -> Iterator[str]:
        """The tests in the folder of tests/ that is called like the file's, or like the nearest above that has one."""
        parts = path.parts[1:-1] if path.parts[0] == "kscheduler" else path.parts[:-1]
        for end in range(len(parts), 0, -1):
            found = list(self._below(PurePath("tests", *parts[:end])))
            if found:
                yield from found
                return

    def _below(self, folder: PurePath) -> Iterator[str]:
        return (test for test in self.tests if PurePath(test).is_relative_to(folder))

    def _file(self, module: str) -> str | None:
        path = module.replace(".", "/")
        return next((name for name in (f"{path}.py", f"{path}/__init__.py") if name in self.files), None)

    def _defining(self, module: str, name: str, depth: int = 0) -> Iterator[str]:
        """The file that `from module import name` gets it from; for `import module`, where name is empty, its own."""
        inner = self._file(f"{module}.{name}") if name else None
        file = inner or self._file(module)
        if file is None:
            return
        yield file
        if inner is None and file.endswith("__init__.py") and depth < 5:
            for source, names in _imported(self.files[file]):
                if names == name:
                    yield from self._defining(source, name, depth + 1)


def _is_test(name: str) -> bool:
    return PurePath(name).name.startswith("test_") and name.startswith("tests/") and not name.startswith(APART)


def _imported(text: str) -> Iterator[tuple[str, str]]:
    """Module and name of each import; the name is empty where a module is imported whole."""
    for module, in_brackets, in_line, whole in _IMPORT.findall(text):
        for part in re.sub(r"#[^\n]*", "", in_brackets or in_line or whole).split(","):
            if match := _NAME.match(part):
                yield (module, match[1]) if module else (match[1], "")


def changed_files(base: str | None) -> list[str]:
    """What differs from where the branch left `base`, and what git does not know yet."""
    candidates = [base] if base else ["main", "origin/main", "HEAD"]
    known = [one for one in candidates if _git("rev-parse", "--verify", "--quiet", f"{one}^{{commit}}")]
    if not known:
        sys.exit(f"git knows no commit {' or '.join(candidates)}")
    left = _git("merge-base", known[0], "HEAD") or known
    return [*_git("diff", "--name-only", "--no-renames", left[0]), *_git("ls-files", "--others", "--exclude-standard")]


def _git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def main() -> None:
    parser = argparse.ArgumentParser(description="List the tests that belong to what has changed, or run them.")
    parser.add_argument("--base", default="", help="a commit to compare with (default: main)")
    parser.add_argument("--run", nargs=argparse.REMAINDER, help="run them by pytest, with the flags that follow")
    options = parser.parse_args()
    changed = changed_files(options.base or None)
    tests = sorted(Tree().picked(changed))
    if options.run is None:
        sys.stdout.write("".join(f"{test}\n" for test in tests))
        return
    sys.stdout.write(f"{len(changed)} changed files pick {len(tests)} files of tests\n")
    sys.stdout.flush()
    if tests:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *options.run, *tests])


if __name__ == "__main__":
    main()
