"""Pods that PreEnqueue keeps out, and whom of them an event may let in."""
