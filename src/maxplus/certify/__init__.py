"""Certificates: bounds of scores and predictions over boxes of inputs."""

from maxplus.certify.bounds import Bounds, box_bounds
from maxplus.certify.radius import CertifiedRows, certified_at, certified_radius

__all__ = ["Bounds", "CertifiedRows", "box_bounds", "certified_at", "certified_radius"]
