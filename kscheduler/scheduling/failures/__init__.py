"""What follows a failed attempt: requeueing, the pod's condition, and what was learned about its class."""
