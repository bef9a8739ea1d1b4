"""An environment compiles expressions: variables and functions that they may use, and the rules of a release."""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from kscheduler.cel.checking.checker import Checker
from kscheduler.cel.checking.declarations import Names, declared
from kscheduler.cel.checking.library_signatures import library_signatures
from kscheduler.cel.checking.standard_signatures import standard_signatures
from kscheduler.cel.checking.suggestions import KnownNames
from kscheduler.cel.checking.validators import validate
from kscheduler.cel.functions.lists import list_functions
from kscheduler.cel.functions.standard import ORDERS_WITHOUT_NAN, SINGLETONS, standard_functions
from kscheduler.cel.functions.strings import string_functions
from kscheduler.cel.kubernetes.library import kubernetes_functions
from kscheduler.cel.planning.attributes import CostLimitError, EvaluationRules, Frame, Run
from kscheduler.cel.planning.calls import Dispatcher, PlanError
from kscheduler.cel.planning.planner import ExpressionPlanner
from kscheduler.cel.source import NO_LOCATION, Issues, SourceText
from kscheduler.cel.steps import TooManyStepsError, limited, spend
from kscheduler.cel.syntax.literals import SyntaxProblemError
from kscheduler.cel.syntax.nodes import SyntaxNode
from kscheduler.cel.syntax.parser import DEEPEST, TooDeepError, parse
from kscheduler.cel.syntax.paths import Path, paths_read
from kscheduler.cel.syntax.visitor import Visitor
from kscheduler.cel.types import Type
from kscheduler.cel.values.kinds import ErrorValue, PanicError

# What a compilation may take: a second of work. An expression as long as the API server takes needs a fifth, unless it
# is made to need more.
MAX_STEPS = 2_000_000
# What an evaluation may do that CEL's cost does not count: as much work as the cost that it may have.
_FREE_STEPS, _STEPS_PER_COST = 2_000, 2
_LONGEST = 100_000
# Python frames that the deepest expression needs, with room to spare.
_FRAMES = 40_000
# Each level of a nested expression has one of these; runs of `!`, `&&` and `||` do not nest.
_NESTING = (*"([{.?+-*/%=<>", "in")
# Levels that need no more frames than any caller has left.
_SHALLOW = 40


class CompileError(ValueError):
    """An expression cannot be compiled."""


class CompileBudgetError(CompileError):
    """An expression takes more steps to compile than it may."""


class EvaluationError(ValueError):
    """An expression fails; `cost` is what it had cost by then."""

    def __init__(self, message: str, cost: int) -> None:
        super().__init__(message)
        self.cost = cost


class LanguageRules(msgspec.Struct, frozen=True):
    """What differs between releases of Kubernetes, each as its cel-go has it.

    `qualified_locals`: a variable of a comprehension hides no qualified name. `old_positions`: `indexOf("")` is where
    it starts. `shared_decimals`: adding to a large quantity changes it. `bounded_ranges`: `range` of lists ends at a
    million. `short_includes`: `includes` fails where it would look further than 48 values. `quoted_fields`: names of
    fields may stand in backquotes. `duration_of_int`: `duration(1)` is declared. `wide_quantities`:
    quantities are those of 1.38. `knows_masks`: networks have `isMask`.
    `nan_is_unordered`: to be less than NaN is false, not an error. `suggests_names`: the error about an undeclared name
    tells which one may have been meant.
    """

    qualified_locals: bool
    old_positions: bool
    shared_decimals: bool
    bounded_ranges: bool
    short_includes: bool
    quoted_fields: bool
    duration_of_int: bool
    wide_quantities: bool
    knows_masks: bool
    nan_is_unordered: bool
    suggests_names: bool
    evaluation: EvaluationRules


class Program:
    """A compiled expression."""

    def __init__(self, run: Run, slots: int, result: Type, *, nodes: int, deep: bool, paths: frozenset[Path]) -> None:
        self._run, self._slots = run, slots
        self.result_type = result
        self.paths = paths
        """What it reads of its variables (`syntax.paths`)."""
        self.nodes = nodes
        """Of the syntax tree that it was made from."""
        self.deep = deep
        """Whether the evaluation, and what is made of its value, may need `deep_calls`."""

    def evaluate(self, variables: dict[str, Any], limit: int) -> tuple[Any, int]:
        """The value and its cost. Raises `EvaluationError`."""
        frame = Frame(variables, self._slots, limit)
        try:
            with limited(_FREE_STEPS + limit * _STEPS_PER_COST):
                value = self._run(frame)
        except (CostLimitError, TooManyStepsError):
            message = "operation cancelled: actual cost limit exceeded"
            raise EvaluationError(message, max(frame.cost, limit + 1)) from None
        except PanicError as panic:
            message = f"internal error: {panic}"
            raise EvaluationError(message, frame.cost) from None
        if type(value) is ErrorValue:
            raise EvaluationError(value.message, frame.cost)
        return value, frame.cost


class Environment:
    """Variables with their types, types with their fields, and rules."""

    def __init__(
        self, variables: Mapping[str, Type], structs: Mapping[str, Mapping[str, Type]], rules: LanguageRules
    ) -> None:
        self._variables, self._structs, self._rules = variables, structs, rules
        signatures = [*standard_signatures(), *library_signatures()]
        if rules.duration_of_int:
            at = next(at for at, line in enumerate(signatures) if line.startswith("duration string_to_duration"))
            signatures.insert(at, "duration int64_to_duration (int) -> duration")
        if rules.knows_masks:
            signatures.append("isMask cidr_is_mask CIDR.() -> bool")
        self._functions = declared(signatures)
        self._known = KnownNames(variables, self._functions) if rules.suggests_names else None
        implementations = {
            **standard_functions(),
            **string_functions(old_positions=rules.old_positions),
            **list_functions(bounded_ranges=rules.bounded_ranges),
            **kubernetes_functions(
                shared_decimals=rules.shared_decimals, wide=rules.wide_quantities, short_includes=rules.short_includes
            ),
        }
        singletons = SINGLETONS | ORDERS_WITHOUT_NAN if rules.nan_is_unordered else SINGLETONS
        self._dispatcher = Dispatcher(self._functions, implementations, singletons)

    def compile(self, text: str, refusal: Callable[[Type], str], most_steps: int = MAX_STEPS) -> Program:
        """`refusal` says what is wrong with a result type, or nothing. Raises `CompileError`, `CompileBudgetError`."""
        try:
            with deep_calls(), limited(most_steps):
                return self._compile(text, refusal)
        except TooManyStepsError:
            message = f"the expression takes more than {most_steps:,} steps to compile"
            raise CompileBudgetError(message) from None

    def _compile(self, text: str, refusal: Callable[[Type], str]) -> Program:
        spend(len(text))
        source = SourceText(text)
        issues = Issues(source)
        visitor = Visitor(source, issues, quoted_fields=self._rules.quoted_fields)
        node = _syntax(source, issues, visitor)
        _refuse(issues)
        names = Names(self._variables, self._structs, qualified_locals=self._rules.qualified_locals)
        checked = Checker(names, self._functions, visitor.numbering, issues, self._known).run(node)
        _refuse(issues)
        validate(node, checked, visitor.numbering, issues)
        _refuse(issues)
        wrong = refusal(checked.types[node.id])
        if wrong:
            raise CompileError(wrong)
        planner = ExpressionPlanner(checked, self._dispatcher, self._rules.evaluation)
        try:
            run = planner.plan(node)
        except PlanError as error:
            message = f"program instantiation failed: {error}"
            raise CompileError(message) from None
        deep = sum(map(text.count, _NESTING)) > _SHALLOW
        nodes = len(visitor.numbering.offsets)
        return Program(run, planner.slots, checked.types[node.id], nodes=nodes, deep=deep, paths=paths_read(node))


def _refusal(issues: Issues) -> CompileError:
    spend(len(issues.found) * len(issues.source.text) // 50)  # each is shown with its line
    return CompileError(f"compilation failed: {issues.shown()}")


def _refuse(issues: Issues) -> None:
    if issues.count:
        raise _refusal(issues)


def _syntax(source: SourceText, issues: Issues, visitor: Visitor) -> SyntaxNode:
    """Raises `CompileError`."""
    if len(source.text) > _LONGEST:
        size = len(source.text)
        issues.add(NO_LOCATION, f"expression code point size exceeds limit: size: {size}, limit {_LONGEST}")
        raise _refusal(issues)
    try:
        tree = parse(source.text)
    except TooDeepError:
        issues.add(NO_LOCATION, f"expression recursion limit exceeded: {DEEPEST}")
        raise _refusal(issues) from None
    except SyntaxProblemError as problem:
        issues.add(source.location(problem.offset), f"Syntax error: {problem}")
        raise _refusal(issues) from None
    try:
        return visitor.visit(tree)
    except TooDeepError:
        issues.add(NO_LOCATION, "max recursion depth exceeded")
        raise _refusal(issues) from None


@contextmanager
def deep_calls() -> Iterator[None]:
    """Room for the frames of deep expressions, which never are deeper than `DEEPEST` rules of the grammar.

    The interpreter has one limit for all threads: the last one that is done restores it.
    """
    with _deep.lock:
        if not _deep.users:
            _deep.before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_deep.before, _FRAMES))
        _deep.users += 1
    try:
        yield
    finally:
        with _deep.lock:
            _deep.users -= 1
            if not _deep.users:
                sys.setrecursionlimit(_deep.before)


@dataclass
class _DeepCalls:
    """Who needs a deep stack at this time."""

    lock: threading.Lock
    users: int = 0
    before: int = 0
    """The limit when nobody did."""


_deep = _DeepCalls(threading.Lock())
