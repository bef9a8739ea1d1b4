"""From bytes to typed settings: YAML to a tree, a tree to structs, each mistake with its field path."""
