"""Plugins that are not in-tree are supervised: calls have a time budget, and one that fails for all is quarantined.

    circuit_breaker  when a plugin is no longer called, and how it comes back: closed, open, half-open
    alarm        the one timer signal of the process: ends a Python call of a plugin at its budget
    holds        for whom a plugin is not called for a while, because calls took too long
    held_pods    what the watch tells of them, and what is reported
    supervised   a stand-in for a plugin: its methods, hints and coroutines' steps run within the budget
    supervisor   counts the failures of one profile's plugins, and says which plugin is quarantined

In-tree plugins have no stand-in and pay nothing. What a quarantine does to a profile is in
`scheduling.quarantined_profiles`; `assembly` exchanges the profiles, between two decisions.
"""
