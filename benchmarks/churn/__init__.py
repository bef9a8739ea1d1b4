"""A week of an autoscaled cluster in minutes: its world, its objects, and the census of what a scheduler keeps."""
