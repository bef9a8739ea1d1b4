from dataclasses import replace

from tests.mutants import equivalents
from tests.mutants.__main__ import PACKAGES, ROOT
from tests.mutants.mutation import mutants_of
from tests.mutants.sampling import all_mutants


def test_every_entry_still_fits_one_change_of_the_code() -> None:
    entries = equivalents.read()
    files = {entry.file for entry in entries}
    sources = {file: (ROOT / file).read_bytes() for file in files if (ROOT / file).exists()}
    assert equivalents.unfit(entries, all_mutants(sources, PACKAGES)) == []


def test_every_entry_says_why_and_stands_once() -> None:
    entries = equivalents.read()
    assert all(len(entry.why.split()) >= 5 for entry in entries)
    assert len({replace(entry, why="") for entry in entries}) == len(entries)


def test_an_entry_fits_its_change_wherever_the_line_stands_and_no_other() -> None:
    entry = equivalents.Equivalent("a.py", "f", "return a < b", "return a <= b", "they are never equal")
    mutants = mutants_of("a.py", b"# a line more\ndef f():\n    return a < b\n\ndef g():\n    return a < b\n")
    assert [(mutant.scope, mutant.after) for mutant in mutants if entry.fits(mutant)] == [("f", "return a <= b")]
    assert equivalents.unfit([entry], mutants) == []
    assert equivalents.unfit([entry], mutants_of("a.py", b"def f():\n    return a > b\n")) == [entry]


def test_of_two_equal_lines_the_line_above_says_which() -> None:
    mutants = mutants_of("a.py", b"def f():\n    x()\n    y()\n    x()\n")
    both = equivalents.Equivalent("a.py", "f", "x()", "pass", "it does nothing at all")
    second = replace(both, above="y()")
    assert equivalents.unfit([both, second], mutants) == [both]
    assert [mutant.line for mutant in mutants if second.fits(mutant)] == [4]
