"""What is refused in any object, whatever its kind, and in Events."""
