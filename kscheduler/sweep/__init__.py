"""Sweeps: a grid of policies, workloads, node shapes and seeds, executed run by run, and reports about the results.

    sweep_file       the YAML file, read strictly; sweep_settings: its fields
    run_spec         a run as a value, and its key
    running          executes a run: spec -> row
    row              the row, and what its columns mean
    policies         a policy as one profile that places all pods
    timed            a run in virtual time, and recordings; generated: pods and gangs that arrive at random times
    trace            a public GPU trace
    cluster_samples  samples of the cluster's state during a run, and their mean
    results          rows as Parquet files: a run whose file exists is done
    engines          where runs execute: this machine, Dask, pods of a Job
    sweeping         executes the runs that are not done, and stores their rows
    summary          mean and deviation of the rows of each policy
    search           finds the weights with the lowest loss; search_text: its result as text
    page             an HTML page with plots

A run is a pure function of its spec: on any engine, in any order, interrupted or not, the rows are equal except for
the measured times.
"""
