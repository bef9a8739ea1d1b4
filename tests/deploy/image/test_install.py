"""The steps of the build, on small trees: what is left out, what is refused, what bytecode says."""

import csv
import importlib.util
import os
import py_compile
import sys
from pathlib import Path

import pytest

from deploy.image import install


@pytest.mark.parametrize(
    ("name", "unneeded"),
    [
        ("numpy/_core/tests/test_umath.py", True),
        ("kubernetes_asyncio/config/kube_config_test.py", True),
        ("aiohttp/_http_parser.pyx", True),
        ("msgspec/__init__.pyi", True),
        ("CHANGELOG.md", True),
        ("../../bin/f2py", True),
        ("kscheduler-0.1.0.dist-info/direct_url.json", True),
        ("numpy/testing/__init__.py", False),
        ("numpy/_core/multiarray.py", False),
        ("aiohttp/_http_parser.cpython-313-x86_64-linux-gnu.so", False),
        ("numpy-2.5.4.dist-info/licenses/numpy/_core/tests/LICENSE.md", False),
        ("tests.py", False),
    ],
)
def test_a_service_can_do_without_tests_stubs_and_sources_of_extensions(name: str, unneeded: bool) -> None:
    assert install.is_unneeded(Path(name)) is unneeded


def test_what_is_left_out_is_not_in_record(tmp_path: Path) -> None:
    info = tmp_path / "a-1.dist-info"
    for name in ("a/__init__.py", "a/tests/test_a.py", "a-1.dist-info/RECORD"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    rows = [
        ("a/tests/test_a.py", "sha256=x", "0"),
        ("a/__init__.py", "sha256=y", "0"),
        ("a-1.dist-info/RECORD", "", ""),
    ]
    with (info / "RECORD").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    install.leave_out_what_is_not_needed(tmp_path, info / "RECORD")
    assert (info / "RECORD").read_text() == "a-1.dist-info/RECORD,,\na/__init__.py,sha256=y,0\n"
    assert not (tmp_path / "a/tests/test_a.py").exists()


@pytest.mark.parametrize("name", ["zz.pth", "sitecustomize.py", "usercustomize.py"])
def test_code_that_runs_at_each_start_is_refused(tmp_path: Path, name: str) -> None:
    install.refuse_code_at_start(tmp_path)
    (tmp_path / name).write_text("import os")
    with pytest.raises(install.BuildError, match=f"would run {name} at each start"):
        install.refuse_code_at_start(tmp_path)


def test_bytecode_names_the_place_in_the_image_and_is_no_matter_of_dates(tmp_path: Path) -> None:
    source = tmp_path / "sources" / "package" / "module.py"
    source.parent.mkdir(parents=True)
    source.write_text("def function(): return 1\n")
    install.compile_tree(tmp_path / "sources", Path("/opt/x"), tmp_path / "first")
    os.utime(source, (1, 1))
    install.compile_tree(tmp_path / "sources", Path("/opt/x"), tmp_path / "second")
    name = f"package/__pycache__/module.{sys.implementation.cache_tag}.pyc"
    first, second = (tmp_path / folder / name for folder in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert b"/opt/x/package/module.py" in first.read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()
    assert first.read_bytes()[:4] == importlib.util.MAGIC_NUMBER
    assert first.read_bytes()[4:8] == b"\x01\x00\x00\x00"  # PEP 552: hash-based, unchecked


def test_a_module_that_does_not_compile_ends_the_build(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def (")
    with pytest.raises(py_compile.PyCompileError):
        install.compile_tree(tmp_path, Path("/opt/x"), tmp_path / "out")


def test_the_environment_is_that_of_the_images_python(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    install.make_environment(home)
    assert (home / "bin/python3").readlink() == Path(install.INTERPRETER)
    assert "home = /usr/bin\ninclude-system-site-packages = false\n" in (home / "pyvenv.cfg").read_text()
    assert (home / "bin/kscheduler").read_text().startswith(f"#!{install.HOME}/bin/python3\n")
    assert os.access(home / "bin/kscheduler", os.X_OK)


def test_an_architecture_without_a_lock_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TARGETARCH", "riscv64")
    monkeypatch.setattr("sys.argv", ["install.py", "fetch"])
    assert install.main() == 1
    assert "the lock files are for amd64 and arm64" in capsys.readouterr().err
