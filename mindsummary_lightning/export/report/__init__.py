"""One self-contained HTML page about several runs; it opens without a network."""

from mindsummary_lightning.export.report.page import write_report as write_report
