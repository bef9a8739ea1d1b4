"""Bounded tables: names chosen by users or controllers must not fill the memory of a service that runs for months.

`recently_used` is bounded by the number of entries, `within_budget` by their total weight. Both drop the entry that
was put or used longest ago. cachetools offers the same, but its hits are Python calls that also move the entry, and it
computes weights by a callback; here a lookup without moving is dict's own, and the caller of `put` passes the weight.
"""
