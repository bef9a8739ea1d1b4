"""From a checked expression to closures that evaluate it and count what that costs."""
