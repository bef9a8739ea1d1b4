"""Pod groups: what they ask for, and their members by state."""
