"""What would have to change for a pod to fit: changes of objects, each tried in the cycle before anybody sees it.

`search` finds them, `trial` tries them, `pod_relaxations`, `node_changes`, `making_room` and `more_nodes` propose them.
"""
