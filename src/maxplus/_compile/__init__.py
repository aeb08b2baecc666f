"""Numba compilation: the only package that uses Numba's private API."""
