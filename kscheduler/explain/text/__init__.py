"""A decision for a person: the page, and how its lines are laid out."""
