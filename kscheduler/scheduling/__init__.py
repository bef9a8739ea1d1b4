"""From a pod in the queue to a pod on a node: profiles, the cycle, binding, failures, workers.

The cycle is a function of (profile, pod, view); everything that touches the API server stands around it.
"""
