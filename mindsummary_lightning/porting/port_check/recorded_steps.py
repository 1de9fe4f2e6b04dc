"""Finds the recorded steps of the original with which a port is compared."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mindsummary_lightning.conversion.arguments import checked_path, positive_int
from mindsummary_lightning.fileio.whole_step_file import WholeStepReader, whole_step_paths
from mindsummary_lightning.porting.port_check.reference_step import ReferenceStep
from mindsummary_lightning.values.text import listed

_LISTED = 5


def recorded_paths(
    reference: str | os.PathLike[str], steps: int | Sequence[int] | None = None
) -> dict[int, str]:
    """Return the files of the recorded steps, by step.

    Args:
        reference: directory of a run, or the file of one step.
        steps: how many of the recorded steps from the first on, or their numbers; ``None`` for all.

    Raises:
        TypeError: an argument has the wrong type.
        FileNotFoundError: there is no such directory or file.
        ValueError: the reference has no steps with whole tensors, or not these steps.
    """
    path = checked_path("reference", reference)
    wanted = None if steps is None else _checked_steps(steps)
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"reference must be the directory of a run, got {path}, which does not exist. "
            "Check the path"
        )
    if os.path.isfile(path):
        return {WholeStepReader(path).step.step: path}
    found = whole_step_paths(path)
    if not found:
        raise ValueError(
            f"reference must be a run with whole tensors, got {path} without any. "
            "Record the original again with whole_tensors=True"
        )
    if wanted is None:
        return found
    if isinstance(wanted, int):
        return dict([*found.items()][:wanted])
    missing = [step for step in wanted if step not in found]
    if missing:
        has = listed([str(step) for step in found], _LISTED)
        raise ValueError(
            f"steps must be recorded in {path}, got {missing[0]}. Its recorded steps are {has}"
        )
    return {step: found[step] for step in sorted(wanted)}


def open_step(path: str) -> ReferenceStep:
    """Open the file of a recorded step."""
    return ReferenceStep(WholeStepReader(path))


def _checked_steps(steps: int | Sequence[int]) -> int | list[int]:
    if isinstance(steps, (tuple, list, range)):
        return [positive_int("a step of steps", number) for number in steps]
    return positive_int("steps", steps, "an int, a sequence of them or None")
