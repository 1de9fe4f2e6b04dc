"""Records and checks MindSpore trainings, without torch and Lightning.

``StepRecorder`` records steps of a training. ``PortCheck`` and ``check_port`` check a port against
a recorded step.
"""

from mindsummary_lightning.porting.mindspore.cell_port_check import PortCheck, check_port
from mindsummary_lightning.porting.mindspore.step_recorder import StepRecorder

__all__ = ["PortCheck", "StepRecorder", "check_port"]
