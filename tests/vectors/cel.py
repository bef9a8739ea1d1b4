"""Compares selectors recorded from Kubernetes with ours: `python -m tests.vectors.cel FILE...`.

The first line of a file is `{"devices": {name: device}}`, each other line a case: an expression, whether lists were
allowed, what compiling it gives, and for each device the value or error and what that cost. Prints how many are equal
and the first differences; the exit status is 1 if there are any. A syntax error equals any other one.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from kscheduler.api.device_selectors import CompiledSelector, SelectorCompiler
from kscheduler.api.devices import Device
from kscheduler.api.selector_errors import SelectorCompileError, SelectorRuntimeError

SHOWN = 20


class ShadowEvaluator:
    """The devices of a file and our compilers."""

    def __init__(self, version: str, devices: dict[str, Any]) -> None:
        self._devices = {
            name: (device["driver"], msgspec.convert({**device, "name": name}, Device))
            for name, device in devices.items()
        }
        release: Any = version
        self._compilers = {lists: SelectorCompiler(release, list_attributes=lists) for lists in (False, True)}

    def differences(self, case: dict[str, Any]) -> Iterator[str]:
        """What we do differently: one text for each."""
        wanted = case["compile"]
        compiler = self._compilers[bool(case.get("listAttributes"))]
        try:
            selector = compiler.compile(case["expression"])
        except SelectorCompileError as error:
            if wanted.get("ok"):
                yield f"compile: {error}\n  wanted ok, {wanted['type']}"
            elif is_syntax_error(wanted["error"]):
                if "Syntax error: " not in str(error):
                    yield f"compile: {error}\n  wanted a syntax error: {wanted['error']}"
            elif str(error) != wanted["error"]:
                yield f"compile: {error}\n  wanted:  {wanted['error']}"
            return
        if not wanted.get("ok"):
            yield f"compile: ok, {selector.result_type}\n  wanted:  {wanted['error']}"
            return
        if selector.result_type != wanted["type"]:
            yield f"type: {selector.result_type}, wanted {wanted['type']}"
        for evaluation in case.get("evaluations", ()):
            yield from self._evaluation(selector, evaluation)

    def _evaluation(self, selector: CompiledSelector, wanted: dict[str, Any]) -> Iterator[str]:
        found: dict[str, Any] = {}
        cost: int | None
        try:
            found["value"], cost = selector.evaluate(*self._devices[wanted["device"]])
        except SelectorRuntimeError as error:
            found["error"], cost = str(error), error.cost
        outcome = {key: wanted[key] for key in ("value", "error") if key in wanted}
        if found != outcome:
            yield f"{wanted['device']}: {found}\n  wanted: {outcome}"
        least, most = wanted.get("costs", (wanted.get("cost"),) * 2)
        if cost is None or least is None or most is None:
            if cost != least:
                yield f"{wanted['device']}: cost {cost}, wanted {least}"
        elif not least <= cost <= most:
            yield f"{wanted['device']}: cost {cost}, wanted {least}" + (f" to {most}" if most != least else "")


def is_syntax_error(text: str) -> bool:
    """Whether cel-go's parser refused the expression: in which words, and what it found behind it, is its own matter.

    The last two are its ways to give up.
    """
    ways = ("Syntax error: ", "error recovery attempt limit exceeded", "error recovery token lookahead limit exceeded")
    return any(way in text for way in ways)


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The devices and the cases of a file."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        first, *cases = (json.loads(line) for line in lines)
    return first["devices"], cases


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("files", nargs="+", type=Path, help="recorded selectors, named <release>.jsonl.gz")
    parser.add_argument("--shown", type=int, default=SHOWN, help="differences to print")
    arguments = parser.parse_args()
    equal = total = 0
    for path in arguments.files:
        version = next((each for each in ("1.38", "1.37") if each in path.name), "1.36")
        devices, cases = read(path)
        judge = ShadowEvaluator(version, devices)
        for case in cases:
            total += 1
            differences = list(judge.differences(case))
            if not differences:
                equal += 1
            elif total - equal <= arguments.shown:
                text = "\n".join(differences)
                print(f"{version} {case.get('id', '')}: {case['expression']}\n {text}\n")  # noqa: T201  a command
    print(f"{equal} of {total} equal")  # noqa: T201
    return int(equal != total)


if __name__ == "__main__":
    sys.exit(main())
