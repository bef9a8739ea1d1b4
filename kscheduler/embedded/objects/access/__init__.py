"""Who may do what: role-based access as the stored roles and bindings say, and questions about it."""
