"""The server's TLS: certificate and key, self-signed where none is given, and contexts that follow their files."""
