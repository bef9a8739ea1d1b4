"""Objects in, the scheduler's own cycle over copied state, results out. Nothing is written to any cluster.

`scenario` reads what to decide (a line of a file, or objects listed from a cluster), `decide` decides it.
"""
