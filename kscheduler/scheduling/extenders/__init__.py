"""HTTP extenders: what their answers mean, and asking them in order."""
