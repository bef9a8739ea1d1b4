"""The types of the API, and checks of values against them."""
