"""What is done in the background, beside decisions.

refreshed_plugins   fetches the data of plugins' own, periodically
volume_counts       counts what is attached to nodes before a pod asks
"""
