"""The state at the beginning of a segment: taken between two steps by reference, written in the thread, put back."""
