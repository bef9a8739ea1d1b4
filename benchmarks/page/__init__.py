"""What the status page costs."""
