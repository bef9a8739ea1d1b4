"""Sweeps: a grid of policies, workloads, node shapes and seeds, run by run, and what can be read of it.

    sweep_file   what is asked, as a file: read strictly; sweep_settings: its fields
    run_spec     a run as a value, and its key
    running      a run: spec -> row
    row          the row, and what its columns mean
    policies     a policy as one profile that places all pods
    timed        recordings and generated pods, in their own time
    trace        a public GPU trace
    moments      what is seen of a cluster in a run
    results      rows as Parquet files: a run that is there is done
    engines      who makes the runs: this machine, Dask, pods of a Job
    sweeping     the runs that are missing, made and kept
    summary      the rows of each policy together
    search       weights that serve a goal; search_text: in words
    page         all of it as an HTML page with plots

A run is a pure function of its spec: on any engine, in any order, interrupted or not, the rows are the same but for
times.
"""
