"""Kubernetes objects as typed values.

The problem: generated client models cost 90 times what decoding costs and carry fields that no scheduler reads.
The idea: `msgspec` structs that hold just the fields a scheduler reads, decoded straight from the bytes of the wire.
Selectors and quantities are parsed once and are values with an algebra of their own. Nothing here does I/O.

`kinds.KINDS` is the one table of kinds: where each lives in the API and which struct holds it.
"""
