"""Describes findings of the forward pass in words."""

from __future__ import annotations

from mindsummary_lightning.porting.port_check.findings import PortFinding
from mindsummary_lightning.porting.port_check.input_comparison import Relation, TensorComparison
from mindsummary_lightning.porting.port_check.port_frames import Frame, PortModule, PortTensor
from mindsummary_lightning.porting.port_check.tolerances import PrecisionTolerance
from mindsummary_lightning.values.text import Phrase
from mindsummary_lightning.values.whole_step import StoredModule, StoredTensor


def input_finding(
    blamed: Frame, frame: Frame, reference: StoredTensor, port: PortTensor, found: TensorComparison,
    tolerance: PrecisionTolerance,
) -> PortFinding:  # fmt: skip
    """Describe a finding: a call's own code computed a wrong input for an inner call."""
    what = module_words(frame.module.name)
    place = Phrase(
        "code of {} between {} and {}",
        code_words(blamed),
        blamed.last or Phrase("its beginning"),
        what,
    )
    if found.relation is Relation.OTHER_SIZE:
        shapes = [*port.array.shape], [*reference.shape]
        sentence = Phrase(
            "{} gets an input of shape {} instead of {}: {} computes it.", what, *shapes, place
        )
    else:
        sentence = Phrase(
            "{} gets an input that differs by {:.1e} (tolerance {:.0e}): {} computes it.",
            what, found.distance, tolerance.value, place,
        )  # fmt: skip
    return PortFinding(
        blamed.module.name, "inputs", place, found.distance, tolerance.value, sentence, frame.line,
        tuple(reference.shape), tuple(port.array.shape), blamed.number,
        operations=tuple(blamed.operations),
    )  # fmt: skip


def output_finding(
    frame: Frame,
    partner: StoredModule | None,
    reference: StoredTensor,
    port: PortTensor,
    found: TensorComparison,
    tolerance: PrecisionTolerance,
) -> PortFinding:
    """Describe a finding: a module computed a wrong output.

    The cause is the module, or its own code after the last inner module.
    """
    module = frame.module
    name = module_words(module.name)
    is_own_code = frame.has_compared_inside and not module.is_library
    place: str = Phrase("{} ({})", name, module.kind)
    if is_own_code:
        place = Phrase(
            "code of {} between {} and its end", name, frame.last or Phrase("its beginning")
        )
    if found.relation is Relation.OTHER_SIZE:
        shapes = [*port.array.shape], [*reference.shape]
        sentence = Phrase(
            "{} gets the right inputs, but its output has shape {} instead of {}.", name, *shapes
        )
    elif is_own_code:
        sentence = Phrase(
            "The modules inside {} are right, but its output differs by {:.1e} (tolerance "
            "{:.0e}): the cause is its own code after {}.",
            name, found.distance, tolerance.value, frame.last,
        )  # fmt: skip
    else:
        sentence = Phrase(
            "{} ({}) gets the right inputs, but its output differs by {:.1e} (tolerance {:.0e}).",
            name, module.kind, found.distance, tolerance.value,
        )  # fmt: skip
    return PortFinding(
        module.name, "output", place, found.distance, tolerance.value,
        _with_settings(sentence, module, partner),
        frame.line, tuple(reference.shape), tuple(port.array.shape), frame.number,
        operations=tuple(frame.operations),
    )  # fmt: skip


def module_words(name: str) -> str:
    """Return a module's name, or words for the network."""
    return name or Phrase("the network")


def code_words(frame: Frame) -> str:
    """Name the module whose code a call runs.

    A call without a module stands for the training step.
    """
    return frame.module.name or Phrase(
        "the training step" if not frame.module.kind else "the network"
    )


def _with_settings(sentence: Phrase, module: PortModule, partner: StoredModule | None) -> Phrase:
    """Add the settings that differ between port and original to a sentence."""
    if partner is None:
        return sentence
    if partner.is_training != module.is_training:
        mode = Phrase("training mode" if module.is_training else "evaluation mode")
        return Phrase("{} The module is in {}, but not in the original.", sentence, mode)
    common = partner.settings.keys() & module.settings.keys()
    others = [
        f"{name}={module.settings[name]} ({partner.settings[name]})"
        for name in sorted(common)
        if module.settings[name] != partner.settings[name]
    ]
    if not others:
        return sentence
    return Phrase(
        "{} Its settings, with the original's in brackets: {}.", sentence, ", ".join(others)
    )
