"""One attempt at one pod, from the queue to its binding. The workers that make attempts are in `scheduling.work`."""
