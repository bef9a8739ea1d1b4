"""Pods that are expected on a node before they are bound to it: by pod, and in columns by row."""
