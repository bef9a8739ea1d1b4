"""The embedded cluster: an API server over real HTTP that kubectl, the scheduler and the tests can talk to.

It is a product, not a mock: one versioned object store, the verbs and admission that a scheduler presupposes, watches
with history, and faults as vocabulary. Entry point: `kscheduler.simulation.apiserver.EmbeddedAPIServer`.

    objects     the one table of served kinds, the store, defaults, validation, what a verb means
    patches     strategic merge and server-side apply, as pure functions
    apiserver   HTTP: paths, patches, lists, watches, discovery, OpenAPI, tables, faults
    hollow      kubelets that run pods on paper and report
    controllers what kube-controller-manager does, in the same process; switched on by whoever serves the cluster
    demo        workload, processes, live display, verdict

Limits: no authentication, no authorization, no admission webhooks, no custom resources, one API version per kind.
A server without controllers still collects garbage, empties namespaces and counts budgets when something is evicted.
"""
