"""`kscheduler simulate`: a whole scheduler over a copy of a cluster, with changes nobody has made yet, until it rests.

simulation_plan     what is asked: new pods, drained, added or removed nodes
planning            the plan from files and flags; `from_request` from an HTTP request
simulated_cluster   the cluster in memory, which answers the scheduler as an API server would
drains              what kubectl drain would do
run_simulation      the play
simulation_result   what came of it, for programs by `simulation.schema.json`; `in_text` for people
"""
