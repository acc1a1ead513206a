"""The squared-hinge machines: hull perceptron, core vectors and MMDA."""
