"""What is said of a recording: whether it came out again, and what cache and queue held at a time."""
