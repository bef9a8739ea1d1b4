"""A pod as plugins read it, worked out once: its terms, its spread constraints, what it requests; and its place in the
queue.
"""
