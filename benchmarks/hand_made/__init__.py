"""Schedulers as people write them by hand, and the policies that stand for them, side by side on one cluster."""
