"""Names that are made of other names, and where the API server ends them.

The problem: an object's name may have 253 characters. A name made of it by a suffix is
a name that the API server refuses, for the few objects with long names only, so that nobody sees it for years. The
idea: each rule by which Kubernetes makes a name of another is a function here; what makes names asks it and appends
nothing by itself.
"""

import re
from typing import Final
from uuid import uuid4

from msgspec.structs import force_setattr, replace

from kscheduler.api.core import Pod
from kscheduler.api.well_known import DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME_ANNOTATION

# Pods that name their scheduler by an annotation, as before Kubernetes 1.6 (`honorSchedulerNameAnnotation`).
#
# Today's API server leaves the annotation alone and fills `spec.schedulerName` with `default-scheduler`. So the
# annotation counts where that is what the spec says; a spec that names another scheduler is more recent, and wins.
# Everybody behind this module reads the spec only.


def honor(pod: Pod) -> None:
    """Put the annotation's name into the spec of a freshly decoded pod, which nobody else has seen. Idempotent."""
    name = _annotated(pod)
    if name:
        force_setattr(pod.spec, "scheduler_name", name)


def honored(pod: Pod) -> Pod:
    """The pod with the annotation's name in its spec; the same object if there is nothing to change."""
    name = _annotated(pod)
    return replace(pod, spec=replace(pod.spec, scheduler_name=name)) if name else pod


def _annotated(pod: Pod) -> str:
    if pod.spec.scheduler_name not in ("", DEFAULT_SCHEDULER_NAME):
        return ""
    return pod.metadata.annotations.get(SCHEDULER_NAME_ANNOTATION, "")


# Characters of a DNS subdomain, which most kinds have as names.
LONGEST_NAME: Final = 253
# Characters of `generateName` that the API server keeps: a label has 63, five of them are random.
LONGEST_GENERATED_BASE: Final = 58

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
