"""What is said of a shadow's comparisons: one tree, and text and a page made from it."""
