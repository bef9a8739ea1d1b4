"""The lock files: what pyproject.toml asks for, for both architectures, by hash, and nothing else."""

import re
import tomllib
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from deploy.image import install, lock, sbom

ROOT = Path(__file__).parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RENEW = "renew the lock files: make lock"


@dataclass(frozen=True)
class Locked:
    version: str
    hashes: tuple[str, ...]


def read(name: str) -> dict[str, Locked]:
    text = (lock.FOLDER / name).read_text()
    lines = re.sub(r" \\\n\s+", " ", "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#")))
    found = {}
    for line in lines.splitlines():
        requirement, *hashes = line.split(" ")
        package, _, version = requirement.partition("==")
        found[package] = Locked(version, tuple(hashes))
    return found


def queried(name: str) -> list[Requirement]:
    """The direct dependencies of a lock file."""
    if name == "build.lock":
        return [Requirement(line) for line in PYPROJECT["dependency-groups"]["image-build"]]
    project = PYPROJECT["project"]
    extras = [line for extra in lock.EXTRAS for line in project["optional-dependencies"][extra]]
    return [Requirement(line) for line in [*project["dependencies"], *extras]]


FILES = pytest.mark.parametrize("name", sorted(lock.LOCKS))


@FILES
def test_every_dependency_is_locked_within_its_bounds(name: str) -> None:
    locked = read(name)
    for requirement in queried(name):
        one = locked.get(canonicalize_name(requirement.name))
        assert one is not None, f"{requirement} is not in {name}: {RENEW}"
        assert requirement.specifier.contains(one.version), f"{requirement}, but {one.version} in {name}: {RENEW}"


def closure(requirements: list[Requirement]) -> set[str]:
    """What these need on the image's Python, by the metadata of what is installed here."""
    environment = {name: str(value) for name, value in default_environment().items()}
    environment |= {"python_version": install.PYTHON, "python_full_version": f"{install.PYTHON}.0", "extra": ""}
    environment |= {"sys_platform": "linux", "platform_system": "Linux"}
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in found or (requirement.marker is not None and not requirement.marker.evaluate(environment)):
            continue
        found.add(name)
        waiting += [Requirement(line) for line in metadata.requires(name) or ()]
    return found


def test_nothing_else_enters_the_image() -> None:
    assert set(read("requirements.lock")) == closure(queried("requirements.lock")), RENEW


@FILES
def test_each_package_has_one_wheel_for_each_architecture_and_its_hash(name: str) -> None:
    locked, hashes = read(name), sbom.locked_hashes(lock.FOLDER / name)
    assert set(hashes) == set(locked)
    for package, wheels in hashes.items():
        assert tuple(f"--hash=sha256:{digest}" for digest in wheels.values()) == locked[package].hashes
        chosen = {lock.best_wheel(wheels, machine) for machine in lock.MACHINES.values()}
        assert chosen == set(wheels), f"{package}: a wheel that no architecture takes, or two for one: {RENEW}"
        assert all(f"-{locked[package].version}-" in file for file in wheels), RENEW


@FILES
def test_no_index_and_no_address_is_named(name: str) -> None:
    assert not re.search(r"://|--(extra-)?index|--find-links|@ ", (lock.FOLDER / name).read_text())


def test_a_compiled_wheel_is_taken_before_one_of_python_alone() -> None:
    files = ["aiohttp-3.14.5-py3-none-any.whl", "aiohttp-3.14.5-cp313-cp313-manylinux_2_28_x86_64.whl"]
    assert lock.best_wheel(files, "x86_64") == files[1]
    assert lock.best_wheel(files, "aarch64") == files[0]


@pytest.mark.parametrize(
    "file",
    ["a-1-cp312-cp312-manylinux_2_28_x86_64.whl", "a-1-cp313-cp313-musllinux_1_2_x86_64.whl"],
    ids=["another Python", "another C library"],
)
def test_a_release_without_a_usable_wheel_is_refused(file: str) -> None:
    with pytest.raises(lock.LockError, match="no wheel for x86_64"):
        lock.best_wheel([file], "x86_64")


def test_architectures_that_need_different_versions_are_refused() -> None:
    one, other = {("a", "1"): {"a-1-py3-none-any.whl": "0"}}, {("a", "2"): {"a-2-py3-none-any.whl": "0"}}
    with pytest.raises(lock.LockError, match=r"do not agree on a [12], a [12]"):
        lock.merged({"x86_64": one, "aarch64": other})
