"""Controllers that make pods."""
