"""Measurements on a real API server, beside kube-scheduler and a client that decides nothing: throughput, latency, loop
lag.
"""
