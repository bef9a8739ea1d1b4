"""`kscheduler compact`: on how few nodes would the pods of a cluster run, if all of them were rescheduled?

unplaced_cluster    the cluster with its pods off their nodes, but for those that stay with theirs
free_capacity       what its nodes have free, added up
repacking           the pods are rescheduled on some of the nodes, by the scheduler of `kscheduler simulate`
profiles            those that are compared
compaction          nodes are removed at random until the pods no longer fit, some trials for each profile
compaction_result   what came of it, for programs by `compaction.schema.json`; `as_text` for people
"""
