"""Whether cache and queue still say what the API server says, and how anyone can look at them."""
