"""The report: all about one fitted model on one page."""

from maxplus.report.content import report_content
from maxplus.report.page import render_page

__all__ = ["render_page", "report_content"]
