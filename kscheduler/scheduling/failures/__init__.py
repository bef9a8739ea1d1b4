"""What follows a failed attempt: the way back into the queue, the pod's condition, and what was learned."""
