"""Kubernetes Events: which ones form a series, and how they are sent behind everything else."""
