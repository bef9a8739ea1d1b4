"""Questions: a pod, and the cluster that the question is about, live or from files.

explain_query                  the question itself, and how it is decided
live, from_files               read from an API server or from files
new_pods, new_groups           about pods that do not exist yet, with the pod groups that they are in
new_pods_request               the same as the request of `POST /explain`
named_groups, named_workloads  a group or a workload that is named in place of a pod
running_scheduler              the same over the cache of a running service
"""
