"""Hollow kubelets: nodes that run pods on paper, and turn down what does not fit by sums of their own."""
