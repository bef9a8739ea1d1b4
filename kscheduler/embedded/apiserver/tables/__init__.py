"""Tables as `kubectl get` prints them: the columns of each kind."""
