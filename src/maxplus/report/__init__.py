"""HTML report of a fitted model."""

from maxplus.report.content import report_content
from maxplus.report.page import render_page
from maxplus.report.regression import regression_content

__all__ = ["regression_content", "render_page", "report_content"]
