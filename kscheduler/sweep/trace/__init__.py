"""A public GPU trace as a workload: tasks that come one after the other, are tried once, and never depart.

openb               the trace's files, runs that are drawn from them, and their Kubernetes objects
synthetic           the same without the files: nodes and tasks drawn from the published figures
profiles            the policies that the trace is published with, and ours, as configurations
compared_policies   those of them that exist only for comparison (a file of `--plugin`)
playing             a run through queue, cycle and Binding, over a cluster in memory
idle_devices        idle capacity of devices at the end, and how much of it is unusable
"""
