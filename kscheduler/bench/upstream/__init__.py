"""scheduler_perf's own files: its workloads, read from a checkout or Go's module cache.

    configuration    test cases and workloads of performance-config.yaml, each with what stands in its way
    operations       the operations of a workload, with its parameters in place
    text_template    Go's text/template, as far as the templates of objects use it
"""
