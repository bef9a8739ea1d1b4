"""What stands between a claim and the devices of a node, for explanations: worked out only when somebody asks."""
