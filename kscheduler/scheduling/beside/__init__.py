"""What plugins do beside the cycle, where they may wait.

refreshed_plugins   fetches the data of plugins' own, periodically
"""
