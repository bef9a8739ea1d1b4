"""Each package has a contract of import-linter that says where it stands."""

import fnmatch
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = sorted(
    ".".join(path.parent.relative_to(ROOT).parts)
    for top in ("kscheduler", "benchmarks")
    for path in (ROOT / top).rglob("__init__.py")
    if path.parent != ROOT / top
)
CONTRACTS: Final[list[dict[str, Any]]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]


def names_in(contract: dict[str, Any]) -> Iterator[str]:
    """Every package that a contract of layers or of independence names; with `*` for each one in a folder."""
    for layer in contract.get("layers", ()):
        for part in layer.replace("|", " ").replace(":", " ").split():
            name = part.strip("()")
            yield from (f"{container}.{name}" for container in contract.get("containers", ()))
    yield from contract.get("modules", ())


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_named_by_a_contract(package: str) -> None:
    named = {name for contract in CONTRACTS for name in names_in(contract)}
    in_its_folder = {name for name in named if name.count(".") == package.count(".")}
    assert any(fnmatch.fnmatchcase(package, name) for name in in_its_folder), (
        f"{package} is in no contract of pyproject.toml: which of its neighbours may import it?"
    )


def test_a_contract_of_layers_leaves_no_neighbour_out() -> None:
    partial = [one["name"] for one in CONTRACTS if one.get("containers") and not one.get("exhaustive")]
    assert not partial, "a module that no layer names may import what it likes"


def test_no_folder_has_a_circle() -> None:
    whole = [one for one in CONTRACTS if one["type"] == "acyclic_siblings"]
    assert whole
    assert set(whole[0]["ancestors"]) == {"kscheduler", "benchmarks"}
