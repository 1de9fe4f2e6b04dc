"""Export to and import from TensorBoard event files.

Both formats share the record framing.
"""

from mindsummary_lightning.export.tensorboard.exporter import (
    export_tensorboard as export_tensorboard,
)
from mindsummary_lightning.export.tensorboard.importer import ImportedRun as ImportedRun
from mindsummary_lightning.export.tensorboard.importer import event_files as event_files
from mindsummary_lightning.export.tensorboard.importer import (
    import_tensorboard as import_tensorboard,
)
