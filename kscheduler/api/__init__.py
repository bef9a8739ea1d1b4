"""Kubernetes objects as typed values.

The problem: generated client models cost 90 times what decoding costs and carry fields that no scheduler reads.
The idea: `msgspec` structs that hold just the fields a scheduler reads, decoded straight from the bytes of the wire.
Selectors and quantities are parsed once into values. Nothing here does I/O.

`kinds.KINDS` is the table of kinds: each with its place in the API and its struct.
"""
