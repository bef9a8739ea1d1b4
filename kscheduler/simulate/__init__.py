"""`kscheduler simulate`: a whole scheduler over a copy of a cluster, with changes nobody has made yet, until it rests.

simulation_plan     what is asked: new pods, drained, added or removed nodes
planning            the plan from files and flags; `from_request` from an HTTP request
simulated_cluster   the cluster in memory, which answers the scheduler as an API server would
drains              what kubectl drain would do
taint_evictions     whom new taints would drive off
run_simulation      the play
more_that_fit       how many more pods like the first new one fit in the end
simulation_result   what came of it, for programs by `simulation.schema.json`; `as_text` for people
"""
