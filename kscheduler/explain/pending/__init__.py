"""All pending pods of a cluster, by reason."""
