"""The scheduling queue: pods that wait, in which order they are tried, and which events wake them."""
