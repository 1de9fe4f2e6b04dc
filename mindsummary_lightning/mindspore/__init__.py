"""Recording in MindSpore: ``StepRecorder`` takes the chain of a training step. It needs neither torch nor Lightning."""

from mindsummary_lightning.mindspore.step_recorder import StepRecorder

__all__ = ["StepRecorder"]
