"""What limits which devices go together: attributes, counters that they share, and capacities that are shared."""
