"""Certificates: what a change of the input within a box can do to scores and predictions."""

from maxplus.certify.bounds import Bounds, box_bounds
from maxplus.certify.radius import certified_at, certified_radius
from maxplus.certify.summary import CertifiedRows

__all__ = ["Bounds", "CertifiedRows", "box_bounds", "certified_at", "certified_radius"]
