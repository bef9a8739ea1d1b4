"""Devices as the next decision must see them: slices with all taints, classes, claims, and what is allocated."""
