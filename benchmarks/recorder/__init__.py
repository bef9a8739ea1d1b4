"""What recording costs, and whether a million decisions come out again."""
