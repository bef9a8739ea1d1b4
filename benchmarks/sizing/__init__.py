"""What the service needs by size of the cluster: CPU and memory of two replicas, each a process of its own."""
