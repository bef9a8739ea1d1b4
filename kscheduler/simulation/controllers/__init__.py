"""The controllers of the embedded cluster: what kube-controller-manager does for the objects that are served.

The problem: a Deployment that nobody turns into pods, a budget that nobody counts, a claim that nobody binds: kubectl
waits for ever. The idea: each controller is a function from what the store holds now to a `Plan`, the writes that are
missing; one loop calls it for each object that an event concerns, and performs the plan at once, through the same
admission, defaults and validation as a client's requests. As nothing is stored between reading and writing, there are
no stale caches and no expectations: a controller is right at any moment, or is called again.

    engine      the plan, the view of the store, the queue and its loop, Events
    reading     facts about pods, owners, templates, conditions, revisions: pure
    workloads   Deployment, ReplicaSet (and ReplicationController), StatefulSet, DaemonSet, Job, CronJob
    upkeep      nodes that fall silent, taints that evict, pods without a node, budgets, ServiceAccounts
    storage     volumes and claims, and a provisioner that makes volumes of nothing
    catalogue   their names, as `--controllers` takes them

Garbage collection by owner and the emptying of namespaces belong to the verb DELETE (`objects.deletion`): both are done
within the request. Limits: no Endpoints, no autoscaling (a HorizontalPodAutoscaler is stored and left alone), no quota,
no certificates; of Jobs no pod failure policy, no success policy, no limit per index.
"""
