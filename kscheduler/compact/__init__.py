"""`kscheduler compact`: on how few nodes would the pods of a cluster run, if all of them were placed anew?

moving_pods         the pods that can move, and those that stay with their node
repacking           they are placed anew on some of the nodes, by the scheduler of `kscheduler simulate`
profiles            those that are compared
compaction          nodes are taken away at random until the pods no longer fit, some trials for each profile
fragments           how much of what is free today no pod like theirs could use, and why
compaction_result   what came of it, for programs by `compaction.schema.json`; `as_text` for people
"""
