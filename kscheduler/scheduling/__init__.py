"""From a pod in the queue to a pod on a node: profiles, the cycle, binding, failures, workers.

The cycle is a function of (profile, pod, cache); all code that talks to the API server is outside it.
"""
