"""What is told of pod groups beside the decision about them."""
