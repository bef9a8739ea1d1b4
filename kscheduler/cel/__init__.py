"""The Common Expression Language, as the API server and kube-scheduler compile and evaluate it."""
