"""Each fifth recorded selector of Kubernetes 1.36 and 1.37: ours says the same in the same words, at the same cost."""

from pathlib import Path

import pytest

from tests.vectors.cel import Judge, read

FILES = sorted((Path(__file__).parent / "selectors").glob("*.jsonl.gz"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".jsonl.gz"))
def test_selectors_answer_as_recorded(file: Path) -> None:
    devices, cases = read(file)
    judge = Judge(file.name.removesuffix(".jsonl.gz"), devices)
    assert len(cases) > 900
    found = {case["expression"]: differences for case in cases if (differences := list(judge.differences(case)))}
    assert found == {}
