"""Trying a pod group: all members against one view of the cluster, then all is undone.

    group_cycle       the members one after the other, and whether the group may be placed at all
    composite_cycle   the groups of a composite group one after the other, and the same question
    group_checks      what must hold of a group before that
    group_preemption  when no placement is found: whose eviction would make room for the whole group
    group_outcome     what becomes of each member, and of the group's condition
    reservations      Reserve and its reverse

Who gets a node is bound afterwards, by an ordinary attempt (`scheduling.attempt.group_attempt`).
"""
