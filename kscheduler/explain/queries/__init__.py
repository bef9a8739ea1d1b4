"""Questions: a pod, and the cluster that the question is about, live or from files."""
