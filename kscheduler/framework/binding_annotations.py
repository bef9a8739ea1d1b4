"""Annotations that a pod gets with its Binding.

A plugin writes them to the cycle state in `reserve`. The pod counts with them on its node from then on, so every plugin
of every profile sees them on the pods of a node; the Binding carries them, so the API server stores both or neither.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

NO_ANNOTATIONS: Final[Mapping[str, str]] = MappingProxyType({})


class BindingAnnotations(msgspec.Struct, frozen=True):
    """By key."""

    annotations: Mapping[str, str]
