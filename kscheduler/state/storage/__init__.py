"""Volumes and claims: what exists, what is assumed, which pods use them, and how many more a node takes."""
