"""The verbs of `kubectl kscheduler`: each asks the running service where the user may, and else decides by itself."""
