"""What would have to change for a pod to fit: changes of objects, each tried in the cycle before anybody sees it.

search, pairs    try what is proposed, and show what helps
group_search     the same for a pod group as a whole, by the group's cycle
for_many         of what helps one pod, what helps most of those like it
pod_changes      propose: less of what the pod asks for
other_changes    propose: other claims, labels, nodes, pods that go
trials           how a change is tried
"""
