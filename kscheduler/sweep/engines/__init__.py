"""Engines: who makes the runs. Each takes specs and yields rows as they come, in any order, one for each spec.

    engine        the port, and the worker's side of it
    local         processes on this machine
    dask_cluster  workers of a Dask cluster
    indexed_job   pods of a Job in a Kubernetes cluster

A run that raises is a row with its error. A worker's death is reported; its run is made again, a few times. Who stops
taking rows ends the workers.
"""
