"""Numba compilation: the only package that touches Numba's private API."""
