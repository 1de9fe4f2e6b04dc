"""Export runs to TensorBoard event files, and import runs from such files.

Both formats frame their records in the same way.
"""

from mindsummary_lightning.export.tensorboard.exporter import (
    export_tensorboard as export_tensorboard,
)
from mindsummary_lightning.export.tensorboard.importer import ImportedRun as ImportedRun
from mindsummary_lightning.export.tensorboard.importer import event_files as event_files
from mindsummary_lightning.export.tensorboard.importer import (
    import_tensorboard as import_tensorboard,
)
