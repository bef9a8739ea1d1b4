"""What plugins do in the background, where they may wait.

refreshed_plugins   fetches the data of plugins' own, periodically
"""
