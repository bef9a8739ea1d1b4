"""Trying a change: the cluster is changed, the cycle runs, all is as before. `objections`: what need not be tried."""
