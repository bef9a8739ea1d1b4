"""Names of fields: those of objects that nothing here reads as a whole, and misspelt ones."""
