"""Changes of other objects that may make the pod fit. They propose; `search` and `pairs` try."""
