"""Export to and import from TensorBoard event files; both formats share the record framing."""

from mindsummary_lightning.export.tensorboard.exporter import ExportedRun, export_tensorboard
from mindsummary_lightning.export.tensorboard.importer import ImportedRun, event_files, import_tensorboard

__all__ = ["ExportedRun", "ImportedRun", "event_files", "export_tensorboard", "import_tensorboard"]
