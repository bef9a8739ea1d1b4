"""scheduler_perf's own workloads on a real API server: kscheduler, kube-scheduler, a client that decides nothing.

performance-config.yaml  --kscheduler.bench.upstream.configuration-->  workloads  --scaling-->  workloads that the
machine holds  --requests-->  steps: what is sent, waited for and measured  --play-->  figures  --table-->  rows

Servers, schedulers, the floor and the audit are those of `benchmarks.real`. `feeder` is the process that sends.
"""
