import ast
from pathlib import Path

import pytest

from tests.mutants.mutation import mutants_of

ROOT = Path(__file__).parents[2]


def changes(source: str, kind: str = "") -> list[str]:
    """The changed lines of all mutants (of a kind)."""
    return [mutant.after for mutant in mutants_of("a.py", source.encode()) if kind in mutant.kind]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("x = a < b", ["x = a <= b", "x = a >= b"], id="a limit"),
        pytest.param("x = a is not b", ["x = a is b"], id="an operator of two words"),
        pytest.param("x = (a) not  in (b)", ["x = (a) in (b)"], id="an operator between brackets"),
        pytest.param("x = a == b != c", ["x = a != b != c", "x = a == b == c"], id="a chain"),
        pytest.param("x = a and b and c", ["x = a or b and c", "x = a and b or c"], id="and"),
        pytest.param("x = not (a)", ["x =  (a)"], id="not"),
        pytest.param("x += é + 2", ["x -= é + 2", "x += é - 2", "x += é + 1", "x += é + 3"], id="arithmetic"),
        pytest.param("x = ~a", ["x = a"], id="a mask"),
        pytest.param("x = -1", ["x = -2", "x = 0"], id="a negative number"),
        pytest.param("x = True", ["x = False"], id="a flag"),
        pytest.param("x = 'name'", ["x = 'nameXX'"], id="a word"),
        pytest.param("f(a, b=c)", ["pass", "f(a, )"], id="the last keyword"),
        pytest.param("f(b=c, d=e)", ["pass", "f(d=e)", "f(b=c, )"], id="keywords"),
        pytest.param("x = f(b=c,)", ["x = f()"], id="the only keyword"),
        pytest.param("x = max(a)", ["x = min(a)"], id="the opposite"),
        pytest.param("x = a.any()", ["x = a.all()"], id="the opposite of a method"),
        pytest.param("x = a if b else c", ["x = a if not (b) else c"], id="a condition"),
        pytest.param("raise E('too small')", ["pass"], id="a refusal"),
    ],
)
def test_a_change_is_one_small_difference(before: str, after: list[str]) -> None:
    assert changes(before) == after


@pytest.mark.parametrize(
    ("returns", "value", "after"),
    [
        ("bool", "f()", "return not (f())"),
        ("int", "f()", "return (f()) + 1"),
        ("Pod | None", "f()", "return None"),
        ("list[Pod]", "f()", "return []"),
    ],
)
def test_a_function_returns_something_else_of_its_type(returns: str, value: str, after: str) -> None:
    assert changes(f"def g() -> {returns}:\n    return {value}\n") == [after]


def test_leaving_a_loop_or_a_function_is_a_decision() -> None:
    source = "def g():\n    for a in b:\n        if a:\n            continue\n        break\n    return\n"
    assert changes(source) == ["if not (a):", "break", "continue", "pass"]


@pytest.mark.parametrize(
    "source",
    [
        pytest.param('"""Text."""\nx: int\n"""More."""', id="docstrings"),
        pytest.param("def f(a: Literal['b', 1]) -> Literal['c']:\n    '''Text.'''", id="annotations"),
        pytest.param("@dataclass(frozen=True)\nclass A(B, eq=False):\n    __slots__ = ('a',)", id="what a class is"),
        pytest.param("if TYPE_CHECKING:\n    x = 1", id="what only the type checker reads"),
        pytest.param("def __repr__(self):\n    return 'x' + 1", id="how it is shown"),
        pytest.param("_log.warning('a_name', number=1)", id="log lines"),
        pytest.param("self._log.debug('a_name', number=1)", id="log lines of one's own log"),
        pytest.param("x = 'a text'\ny = f'{x}-{1}'\nz = f'{x}' + 'b c'", id="text"),
        pytest.param("T = TypeVar('T')\nU = A | B\nV = dict['W', 1]", id="types"),
        pytest.param("assert a == 1\nx = zip(a, b, strict=True)", id="assertions"),
    ],
)
def test_what_is_no_behaviour_is_left_alone(source: str) -> None:
    assert changes(source) == []


def test_a_call_over_several_lines_is_known_by_all_of_them() -> None:
    (dropped,) = mutants_of("a.py", b"def g():\n    f(\n        a,\n    )\n")
    assert (dropped.before, dropped.after, dropped.line, dropped.scope) == ("f( a, )", "pass", 2, "g")


def test_a_header_ends_where_the_body_begins() -> None:
    source = b"def g():\n    if (a and\n        b):\n        c()\n"
    header = {mutant.before: mutant.header for mutant in mutants_of("a.py", source)}
    assert header == {"if (a and b):": range(2, 4), "if (a and": range(2, 4), "c()": range(4, 5)}


def test_each_change_of_our_own_code_compiles_and_differs_and_stands_once() -> None:
    path = ROOT / "kscheduler/state/queue/scheduling_queue.py"
    source = path.read_bytes()
    tree = ast.dump(ast.parse(source))
    mutants = mutants_of(str(path), source)
    assert len({(mutant.start, mutant.end, mutant.replacement) for mutant in mutants}) == len(mutants) > 100
    for mutant in mutants[::7]:
        changed = mutant.applied(source)
        compile(changed, "queue.py", "exec")
        assert ast.dump(ast.parse(changed)) != tree, mutant
