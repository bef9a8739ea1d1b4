"""What the server fills in before an object is stored, for all kinds, pods, and kinds that make pods."""
