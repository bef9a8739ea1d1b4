"""What is said of a recording: whether its decisions come out equal, and what cache and queue held at a time."""
