"""Hollow kubelets: nodes that pretend to run pods, and reject pods that do not fit by their own sums."""
