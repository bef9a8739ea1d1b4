"""Types of expressions: what is declared, and whether an expression keeps to it."""
