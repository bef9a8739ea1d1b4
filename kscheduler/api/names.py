"""Names that are made of other names, and where the API server ends them.

The problem: an object's name may have 253 characters. Whoever makes a name of it by putting something behind it gets a
name that the API server refuses, for the few objects with long names only, so that nobody sees it for years. The idea:
each rule by which Kubernetes makes a name of another is a function here; what makes names asks it and appends nothing
by itself.
"""

import re
from typing import Final
from uuid import uuid4

LONGEST_NAME: Final = 253
"""Characters of a DNS subdomain, which most kinds have as names."""
LONGEST_GENERATED_BASE: Final = 58
"""Characters of `generateName` that the API server keeps: a label has 63, five of them are random."""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_is_subdomain = re.compile(rf"(?=.{{1,{LONGEST_NAME}}}\Z){_LABEL}(\.{_LABEL})*").fullmatch


def event_name(regarding: str, nanoseconds: int) -> str:
    """The name of a new Event about the object `regarding`: `<name>.<time in hexadecimal>`.

    As client-go, a random UUID where that is no name: from 237 characters on, and for the kinds whose names may have
    colons, capitals or underscores (RBAC). `nanoseconds` since 1970 must grow from one Event to the next.
    """
    name = f"{regarding}.{nanoseconds:x}"
    return name if _is_subdomain(name) else str(uuid4())


def generated_name(base: str, suffix: str) -> str:
    """The name that the API server makes of `generateName` and its suffix of five characters: what is long is cut."""
    return f"{base[:LONGEST_GENERATED_BASE]}{suffix}"


def indexed_base(job: str, index: int) -> str:
    """`generateName` of a pod of an Indexed Job: the Job's name is cut, so that the API server keeps the index."""
    end = f"-{index}-"
    return job[: LONGEST_GENERATED_BASE - len(end)] + end
