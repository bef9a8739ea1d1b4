"""Deployments: the controller, their revisions, how far a rollout may go, and what their status says."""
