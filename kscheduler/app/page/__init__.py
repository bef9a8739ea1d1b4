"""The status page over the running service: what it reads, and who answers its questions."""
