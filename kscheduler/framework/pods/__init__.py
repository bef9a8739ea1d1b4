"""A pod as plugins read it, with derived values computed once: its terms, spread constraints and requests; and its
record in the queue.
"""
