"""Packing policies on a public GPU trace (openb: Weng et al., USENIX ATC 2023), played by the service's own cycle.

    python -m benchmarks.openb INPUT.json --data DIR --policy NAME
    python -m benchmarks.openb --workload default --seed 42 --data DIR --policy NAME --summary

INPUT.json is a run: its nodes in the order in which ties are broken, and its tasks in the order of their arrival. DIR
has the trace's CSV files, of which the mix of typical pods is taken. A line for each task is printed, and a summary on
standard error. Trace, policies and player are those of `kscheduler sweep` (`kscheduler/sweep/trace`).
"""
