"""Rehearsals: what is asked, from flags and files, and the answer in words and JSON."""
