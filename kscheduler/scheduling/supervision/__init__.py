"""Plugins that are not in-tree run under supervision: each call has a time budget, and three strikes quarantine one.

    alarm        the one timer signal of the process: ends a Python call of a plugin at its budget
    supervised   a stand-in for a plugin: its methods, hints and coroutines' steps run within the budget
    supervisor   counts strikes for the plugins of one profile, and says which plugin is quarantined

In-tree plugins have no stand-in and pay nothing. What a quarantine does to a profile is in
`scheduling.quarantined_profiles`; `assembly` exchanges the profiles, between two decisions.
"""
