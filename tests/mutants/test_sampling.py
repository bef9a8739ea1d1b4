from tests.mutants.coverage_map import CoverageMap, Part, RunFacts
from tests.mutants.sampling import Chooser, all_mutants, draw

SOURCES = {
    "p/a.py": b"LIMIT = 5\n\n\ndef f(x):\n    return x < 1\n\n\ndef g(x):\n    h(x)\n    return x + LIMIT\n",
    "p/b.py": b"from p.a import LIMIT\n\n\nclass B:\n    most: int = LIMIT\n\n\ndef k(b):\n    return b.most\n",
    "q/c.py": b"y = 1\n",
}
COVERED = CoverageMap(
    [
        Part(
            {},
            {
                "t.py::test_f": RunFacts(0.01, {"p/a.py": [5]}),
                "t.py::test_g": RunFacts(0.01, {"p/a.py": [9, 10]}),
                "t.py::test_k": RunFacts(0.01, {"p/b.py": [9]}),
                "t.py::test_slow": RunFacts(2.0, {"p/a.py": [5]}),
                "t.py::test_many[1]": RunFacts(0.01, {"p/a.py": [5, 9]}),
                "t.py::test_many[2]": RunFacts(0.01, {"p/a.py": [5]}),
                "u.py::test_u": RunFacts(0.01, {}),
            },
        )
    ]
)

TESTS = {"t.py": b"", "u.py": b"from p.a import LIMIT"}


def chosen_for(line: str) -> list[str]:
    """Of the first mutant of a line."""
    mutant = next(mutant for mutant in all_mutants(SOURCES, ["p"]) if mutant.before == line)
    return [name.removeprefix("t.py::test_") for name in Chooser(SOURCES, COVERED, TESTS).tests_of(mutant)]


def test_the_same_seed_draws_the_same_wherever_the_code_has_gone() -> None:
    mutants = all_mutants(SOURCES, ["p"])
    moved = all_mutants({"p/room/z.py": b"# moved\n\n" + SOURCES["p/a.py"], "p/b.py": SOURCES["p/b.py"]}, ["p"])
    for seed in range(5):
        before, after = ([(each.before, each.after) for each in draw(some, seed, 3)] for some in (mutants, moved))
        assert before == after
        assert len(before) == 3


def test_no_line_is_drawn_twice_and_no_more_than_there_are() -> None:
    drawn = draw(all_mutants(SOURCES, ["p"]), 1, 100)
    assert len({(mutant.path, mutant.line) for mutant in drawn}) == len(drawn) == 4


def test_only_the_packages_and_the_pattern_count() -> None:
    assert {mutant.path for mutant in all_mutants(SOURCES, ["p", "q"], "*/c.py")} == {"q/c.py"}
    assert {mutant.path for mutant in all_mutants(SOURCES, ["p"])} == {"p/a.py"}


def test_a_changed_line_is_tried_by_the_tests_that_run_it_the_quick_and_small_first() -> None:
    assert chosen_for("return x < 1") == ["f", "many[1]", "many[2]", "slow"]


def test_a_constant_is_tried_by_the_tests_that_use_it_by_whatever_name() -> None:
    assert set(chosen_for("LIMIT = 5")) == {"g", "k", "u.py::test_u"}


def test_the_first_batch_is_small_and_the_budget_ends_the_last() -> None:
    tests = {f"{file}.py::test_{number}": RunFacts(1.0, {}) for file in "abcde" for number in range(10)}
    batches = list(Chooser(SOURCES, CoverageMap([Part({}, tests)]), TESTS).batches(sorted(tests)))
    assert batches[0] == ["a.py::test_0", "a.py::test_1"]
    assert len(batches[1]) == 30
    assert not set(batches[0]) & set(batches[1])
