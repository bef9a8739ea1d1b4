"""What looks after the API server and the memory of this process, beside the scheduling."""
