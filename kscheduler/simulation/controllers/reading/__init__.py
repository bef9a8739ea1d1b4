"""Facts about objects that several controllers need; pure."""
