"""What a request carries: bodies in each format, checks of their fields, patches."""
