"""Pods that are expected on a node before they are bound to it, one by one and in columns."""
