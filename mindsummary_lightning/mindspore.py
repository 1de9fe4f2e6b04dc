"""Record and check training steps in MindSpore, without PyTorch and Lightning.

``StepRecorder`` records steps of a training. ``PortCheck`` and ``check_port`` compare a network
that was ported to MindSpore with a recorded training step of the original network.
"""

from mindsummary_lightning.porting.mindspore import PortCheck, StepRecorder, check_port

__all__ = ["PortCheck", "StepRecorder", "check_port"]
