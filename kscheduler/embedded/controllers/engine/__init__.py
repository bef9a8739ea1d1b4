"""The machinery of the controllers: plans, the view, the queue and its loop."""
