"""What decisions about devices cost."""
