"""Values of CEL: what they are, how they compare, convert, and look in a text.

bool, str, bytes, float and None are Python's own; an int is a CEL int, `Uint` a uint; a list is a Python list, and the
other kinds are classes of `kscheduler.cel.values.kinds`. An error is a value too (`ErrorValue`): `false && error` is
false.
"""
