"""Runs the scheduler's own cycle on copied state: objects in, results out. Nothing is written to any cluster.

`scenario` reads the question (a line of a file, or objects listed from a cluster), `decide` answers it.
"""
