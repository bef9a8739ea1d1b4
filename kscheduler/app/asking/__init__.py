"""Questions to the running service, answered by a copy of its process that can reach nothing but one pipe."""
