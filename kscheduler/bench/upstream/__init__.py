"""scheduler_perf's own files: its workloads, read from a checkout or Go's module cache, as scenarios.

performance-config.yaml  --configuration-->  workloads  --translation-->  scenarios, and what cannot be played and why

`operations` has the operations of workloads, `manifests` the objects of template files, `text_template` their language.
"""
