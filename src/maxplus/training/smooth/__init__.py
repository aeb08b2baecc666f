"""Networks with soft minima and maxima, and their annealed training."""
