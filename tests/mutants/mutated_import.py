"""One module of a process is imported from a changed source. The file is only read, and no bytecode is kept.

Processes that a test starts import the file as it is: they are not counted on, and `coverage_map` does not see them.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutants.mutation import Mutant


class _ChangedSource(SourceFileLoader):
    """Compiles the mutant where the file was asked for."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> CodeType:
        """Of the changed source, past the bytecode that is kept of the file."""
        return compile(self._source, self.get_filename(fullname), "exec", dont_inherit=True)


class MutatedImport(MetaPathFinder):
    """Finds one module, and leaves all others to who finds them otherwise."""

    def __init__(self, root: Path, mutant: Mutant) -> None:
        """`root`: of the repository."""
        file = root / mutant.path
        parts = Path(mutant.path).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        self._name = ".".join(parts[:-1] if is_package else parts)
        self._file = file
        self._places = [str(file.parent)] if is_package else None
        self._source = mutant.applied(file.read_bytes())

    def install(self) -> None:
        """From now on. The module must not have been imported yet."""
        assert self._name not in sys.modules, f"{self._name} is there already"
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The mutant's module."""
        if fullname != self._name:
            return None
        loader = _ChangedSource(fullname, str(self._file), self._source)
        return spec_from_file_location(fullname, self._file, loader=loader, submodule_search_locations=self._places)
