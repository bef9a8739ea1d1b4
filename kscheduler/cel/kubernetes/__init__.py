"""What Kubernetes adds to CEL: quantities, versions, addresses, URLs, named formats, lists and regular expressions."""
