"""Controllers that create pods."""
