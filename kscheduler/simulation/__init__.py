"""The embedded cluster: an API server over real HTTP that kubectl, the scheduler and the tests can talk to.

It is a product, not a mock: a versioned object store, the verbs and admission that a scheduler needs, watches with
history, and fault injection. Entry point: `kscheduler.simulation.apiserver.EmbeddedAPIServer`.

    objects     the table of served kinds, the store, defaults, validation, the meaning of each verb
    patches     strategic merge and server-side apply, as pure functions
    apiserver   HTTP: paths, patches, lists, watches, discovery, OpenAPI, tables, faults
    hollow      kubelets that pretend to run pods and report their status
    controllers kube-controller-manager's work, in the same process; optional
    demo        workload, processes, live display, verdict
    scenarios   scheduler_perf's scenarios in process, without any of the above: what `kscheduler bench` plays

Limits: no authentication, no authorization, no admission webhooks, no custom resources, one API version per kind.
A server without controllers still collects garbage, empties namespaces and counts budgets at evictions.
"""
