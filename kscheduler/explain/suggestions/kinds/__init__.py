"""The kinds of suggestions, a file for each or for a few that are proposed together; `all_kinds` lists them.

the pod         scheduling_gates, requests, resource_names, tolerations, node_rules, pod_affinity, spread, host_ports
what it claims  volumes, device_claims (with device_selectors); pod_groups
the cluster     nodes, more_nodes, device_supply; refusals of plugins and extenders
other pods      deleted_pods, released_devices

Beside them what several of these share: taints, label_changes, resources, pods_that_go.
"""
