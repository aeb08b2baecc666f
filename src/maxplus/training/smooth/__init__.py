"""Annealed training of networks with soft minima and maxima."""
