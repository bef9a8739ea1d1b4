"""The embedded cluster: an API server over real HTTP that kubectl, the scheduler and the tests can talk to.

It is a product, not a mock: a versioned object store, the verbs and admission that a scheduler needs, watches with
history, and fault injection. Entry point: `kscheduler.embedded.apiserver.EmbeddedAPIServer`.

    kinds       the served kinds: names and paths, errors, field rules, selectors, the cells of their tables
    typed       the types of their fields, as Kubernetes declares them, and what does not fit
    rules       what is refused of each kind
    patches     strategic merge and server-side apply, as pure functions
    objects     the store, admission, defaults, access, the meaning of each verb
    apiserver   HTTP: paths, patches, lists, watches, discovery, OpenAPI, tables, faults
    hollow      kubelets that pretend to run pods and report their status
    controllers kube-controller-manager's work, in the same process; optional
    demo        workload, processes, live display, verdict
    scenarios   scheduler_perf's scenarios in process, without any of the above: what `kscheduler bench` plays

Limits: no authentication; roles are asked only about users that a request impersonates; no admission webhooks, no
custom resources, one API version per kind (Events: two).
A server without controllers still collects garbage, empties namespaces and counts budgets at evictions.
"""
