"""The API server's address and our credentials: kubeconfig, tokens, TLS."""
