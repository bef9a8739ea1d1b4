"""`kscheduler cluster` and `kscheduler demo`: a seeded workload, the processes, the live display and the verdict."""
