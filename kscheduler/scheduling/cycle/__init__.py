"""The scheduling cycle: a function of (profile, pod, cache) that awaits nothing. `schedule` is the entry."""
