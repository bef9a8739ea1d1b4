"""Which pods are where, counted ahead of time: what spread and inter-pod affinity ask."""
