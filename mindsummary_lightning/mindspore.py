"""Record and check steps in MindSpore, without torch and Lightning.

``StepRecorder`` records steps of a training. ``PortCheck`` and ``check_port`` check a port against
a recorded step.
"""

from mindsummary_lightning.porting.mindspore import PortCheck, StepRecorder, check_port

__all__ = ["PortCheck", "StepRecorder", "check_port"]
