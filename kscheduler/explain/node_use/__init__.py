"""All nodes of a cluster: how full they are, and which waiting pods they have rejected."""
