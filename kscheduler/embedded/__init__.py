"""The embedded cluster: an API server over real HTTP that kubectl, the scheduler and the tests can talk to.

It is a product, not a mock: a versioned object store, the verbs and admission that a scheduler needs, watches with
history, and fault injection. Entry point: `kscheduler.embedded.apiserver.EmbeddedAPIServer`.

    objects     the store, admission, defaults, access, the meaning of each verb
    apiserver   HTTP: paths, patches, lists, watches, discovery, OpenAPI, tables, faults
    hollow      kubelets that pretend to run pods and report their status
    controllers kube-controller-manager's work, in the same process; optional
    demo        workload, processes, live display, verdict
    table_cells  what kubectl prints of each kind

The served kinds, their types, defaults, validation and patches are in `kscheduler.api`.

Limits: no authentication; roles are asked only about users that a request impersonates; no admission webhooks, no
custom resources, one API version per kind (Events: two).
A server without controllers still collects garbage, empties namespaces and counts budgets at evictions.
"""
