"""What carries the controllers: plans, the view, the queue and its loop."""
