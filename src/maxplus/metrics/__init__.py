"""How far probabilities can be trusted: measured from labels and probabilities alone."""

from maxplus.metrics.calibration import Reliability, expected_calibration_error, reliability
from maxplus.metrics.log_loss import log_losses

__all__ = ["Reliability", "expected_calibration_error", "log_losses", "reliability"]
