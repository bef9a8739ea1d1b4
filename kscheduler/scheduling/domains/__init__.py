"""Which domains (racks, blocks, zones) of the cluster a pod group goes to: functions of numbers, without pods.

    domain_tree      units (nodes) in domains, level by level
    domain_choice    the domains for a group: best fit, as few as possible, slices whole
    fewest_domains   the fewest domains in a tree, exactly

`scheduling.groups.topology_search` counts the room by the engine's own filters, asks here, and tries the group there.
"""
