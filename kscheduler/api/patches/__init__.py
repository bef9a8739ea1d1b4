"""The patch formats of the API as pure functions over trees: strategic merge and server-side apply."""
