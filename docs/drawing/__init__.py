"""Figures of the documentation pages."""
