"""Engines execute runs. Each takes specs and yields one row for each spec, in the order in which they finish.

    engine        the port, and the worker's side of it
    local         processes on this machine
    dask_cluster  workers of a Dask cluster
    indexed_job   pods of a Job in a Kubernetes cluster

A run that raises is a row with its error. A worker's death is reported, and its run is repeated a few times. Closing
the iterator ends the workers.
"""
