"""One attempt at one pod, from the queue to its binding, and the workers that make attempts side by side."""
