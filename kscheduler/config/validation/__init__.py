"""What a complete configuration must satisfy: its fields, the plugins' arguments, names and labels."""
