"""The controllers of the embedded cluster, in place of kube-controller-manager.

The problem: without controllers Deployments get no pods, budgets are not counted, claims are not bound, and kubectl
waits forever. The idea: each controller is a function from the current state of the store to a `Plan`, the missing
writes; a loop calls it for each object that an event concerns, and executes the plan at once, through the same
admission, defaults and validation as a client's requests. Since nothing is stored between reading and writing, there
are no stale caches and no expectations.

    engine      plans, the view of the store, the work queue and its loop, Events
    reading     facts about pods, owners, templates, conditions, revisions: pure
    workloads   Deployment, ReplicaSet (and ReplicationController), StatefulSet, DaemonSet, Job, CronJob
    upkeep      node lifecycle, taint eviction, pod garbage collection, budgets, ServiceAccounts
    devices     claims of devices, and a driver of hollow devices
    storage     volumes and claims, and a provisioner of hollow volumes
    catalogue   the names of the controllers, for `--controllers`

Garbage collection by owner and the deletion of namespaces' contents are part of the verb DELETE (`objects.deletion`).
Limits: no Endpoints, no autoscaling (a HorizontalPodAutoscaler is only stored), no quota, no certificates; for Jobs no
pod failure policy, no success policy, no limit per index.
"""
