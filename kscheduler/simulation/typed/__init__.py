"""The types of the API, and what does not fit them."""
