"""The service's Prometheus metrics, under kube-scheduler's names.

The problem: dashboards and alerts know kube-scheduler's series by name, label and bucket; rendering ten thousand lines
takes longer than a thousand decisions, and must not stop the event loop. The idea: each part of the service is a
`Source`, a function that copies its numbers on the loop in microseconds; `Exposition` (kscheduler/telemetry) folds the
copies into prometheus-client's families and renders them in a thread, one rendering at a time, shared by the scrapes
that wait.

For each exposed family a test shows something that changes it (`tests/telemetry/metrics/test_every_series_moves.py`).
"""
