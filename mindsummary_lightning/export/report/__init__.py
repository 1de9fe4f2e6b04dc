"""Several runs on one HTML page that needs nothing else: no script, no network, no other file."""

from mindsummary_lightning.export.report.page import write_report

__all__ = ["write_report"]
