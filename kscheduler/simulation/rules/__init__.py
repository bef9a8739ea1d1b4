"""What the API server refuses of each kind, beyond types: one file per family of kinds, in the server's own words."""
