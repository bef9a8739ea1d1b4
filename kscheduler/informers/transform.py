"""What is taken off an object before it is stored: a cache of a hundred thousand pods keeps no luggage.

Typed decoding has dropped most of it (environment, managedFields, statuses). Annotations are the rest: kubectl's copy
of the manifest, and values of kilobytes that no scheduler reads. Labels repeat from pod to pod and are interned.
"""

import sys
from collections.abc import Callable
from typing import Any

from kscheduler.api.meta import KubeObject

Transform = Callable[[Any], None]
"""Changes a freshly decoded object in place; nobody else has seen it yet."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
LARGEST_ANNOTATION = 4096
"""Characters of an annotation's value that is kept."""


def trim(obj: KubeObject) -> None:
    """Drop kubectl's last-applied annotation and intern labels: for every kind."""
    metadata = obj.metadata
    if metadata.annotations:
        metadata.annotations.pop(LAST_APPLIED, None)
    if metadata.labels:
        metadata.labels = {sys.intern(key): sys.intern(value) for key, value in metadata.labels.items()}


def trim_pod(obj: KubeObject) -> None:
    """As `trim`, and drop annotations above 4 KiB: there are many pods, and users put files into annotations."""
    trim(obj)
    annotations = obj.metadata.annotations
    if any(len(value) > LARGEST_ANNOTATION for value in annotations.values()):
        kept = {key: value for key, value in annotations.items() if len(value) <= LARGEST_ANNOTATION}
        obj.metadata.annotations = kept


def default_transform(plural: str) -> Transform:
    """The transform for a kind that has none of its own."""
    return trim_pod if plural == "pods" else trim
