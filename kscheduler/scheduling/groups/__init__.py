"""Trying a pod group: all members against one view of the cluster, then all is undone.

    group_cycle              the members one after the other, and whether the group may be placed at all
    composite_cycle          the groups of a composite group one after the other, and the same question
    group_placement          the placements that are tried for a group, and which is best
    topology_placement       what a group asks of the topology, and the placements that follow from it
    topology_search          which domains are tried for it
    member_rooms             how many members each node takes
    member_ranks             the order of members that have an index
    group_trial              the members' places while a group is tried, and how that is undone
    group_preemption         when no placement is found: whose eviction would make room for the whole group
    group_status_writer      the group's condition
    member_extender_results  what extenders have said about each member

Who gets a node is bound afterwards, by an ordinary attempt (`scheduling.attempt.group_attempt`).
"""
