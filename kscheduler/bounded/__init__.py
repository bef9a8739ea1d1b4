"""Tables with a bound: what users or controllers name must not fill the memory of a service that runs for months.

`recently_used` is bounded by entries, `within_budget` by what the entries weigh together. Both let the entry go that
was put or used longest ago. cachetools has as much, but its hits are calls of Python that also move the entry, and it
calls back for weights; here a look-up without moving is a dict's own, and whoever puts an entry says what it weighs.
"""
