"""The scheduling cycle: a function of (profile, pod, view) that awaits nothing."""
