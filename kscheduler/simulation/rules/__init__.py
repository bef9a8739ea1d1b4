"""The API server's validation of each kind, beyond types: a file per family of kinds, with the server's texts."""
