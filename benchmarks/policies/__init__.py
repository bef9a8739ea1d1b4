"""Policies of somebody's own, to be measured: `kscheduler bench --plugin benchmarks/policies/columns.py`."""
