"""What would have to change for a pod to fit: changes of objects, each tried in the cycle before anybody sees it.

search, pairs    try what is proposed, and show what helps
pod_changes      propose: less of what the pod asks for
other_changes    propose: other claims, labels, nodes, pods that go
trials           how a change is tried
"""
