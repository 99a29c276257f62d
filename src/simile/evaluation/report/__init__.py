"""Reports: a run as one page that opens without a network and answers what a user asks of a policy."""

from simile.evaluation.report.page import Report

__all__ = ["Report"]
