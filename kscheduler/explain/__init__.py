"""A decision told to a program (`as_json`), to a person (`as_text`), and asked of a live cluster (`live`)."""
