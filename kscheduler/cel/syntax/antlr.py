"""Words syntax errors."""

from kscheduler.cel.source import Issues, Source
from kscheduler.cel.syntax.tree import Tree


def parse_with_errors(source: Source, issues: Issues) -> Tree | None:
    issues.add((1, 0), "Syntax error: ")
    return None
