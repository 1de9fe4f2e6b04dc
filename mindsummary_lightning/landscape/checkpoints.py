"""Checkpoints in a run's ``ckpt_dir`` from which loss landscapes are computed.

A collector saves the checkpoints. The folder also holds finished rows of unfinished landscapes.

``train_metadata.json`` has MindSpore's keys and names the file of each step or epoch. A checkpoint
is a flat dict of tensors, written by ``torch.save`` and read with ``weights_only=True``, so no file
can run code. No loss is computed here.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.parameter import is_lazy

from mindsummary_lightning.collection.sharding import is_sharded
from mindsummary_lightning.errors import MindSummaryError
from mindsummary_lightning.fileio.append import MissingRecords
from mindsummary_lightning.fileio.regular import open_regular, path_of_open, read_regular
from mindsummary_lightning.fileio.replace import replacement
from mindsummary_lightning.landscape.plane import MappedTensors, memory_of, strided_parts
from mindsummary_lightning.recording.failure_policy import FailurePolicy
from mindsummary_lightning.values.landscape_settings import SHORTEST_INTERVAL, LandscapeSettings
from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)

_METADATA = "train_metadata.json"
_SETTINGS = ("unit", "num_samples", "landscape_size", "create_landscape")
# in the metadata, if not all checkpoints fit
_NEEDED, _ALLOWED = "needed_bytes", "landscape_max_bytes"
_KEYS = ("epoch_group", "model_params_file_map", "step_per_epoch", *_SETTINGS)
_MOST_WAITING = 2**22  # bytes


class LandscapeCheckpointError(MindSummaryError, ValueError):
    """Checkpoints of a landscape are missing, damaged or from another network."""


def checkpoint_dir(summary_dir: str | os.PathLike[str]) -> str:
    """Return the folder of a run that holds its landscape checkpoints."""
    return os.path.join(os.fspath(summary_dir), "ckpt_dir")


def remove_checkpoints(summary_dir: str | os.PathLike[str]) -> None:
    """Delete a run's landscape checkpoints and rows of unfinished landscapes."""
    shutil.rmtree(checkpoint_dir(summary_dir), ignore_errors=True)


class LandscapeCheckpointWriter:
    """Writer of the parameters of chosen steps or epochs while a run trains.

    After each write the metadata name the saved files, so the checkpoints of a killed run are
    usable. :meth:`begin`, or else the first checkpoint, shows the size of a checkpoint. From it
    follows which of the chosen steps or epochs fit into ``max_bytes``; a line of the log names the
    others. With ``all_or_nothing`` no checkpoint is saved unless all fit. A run that continues in
    the same directory keeps the checkpoints before the number that it starts with. MindInsight
    places epochs on the step axis with ``step_per_epoch``. A checkpoint that cannot be written, or
    is deleted later, is left out of the metadata, and ``policy`` counts it; by default it raises.
    """

    def __init__(
        self,
        summary_dir: str | os.PathLike[str],
        network_name: str,
        settings: LandscapeSettings,
        max_bytes: int = 2**26,
        step_per_epoch: int = 1,
        file_mode: int = 0o600,
        all_or_nothing: bool = False,
        policy: FailurePolicy | None = None,
    ) -> None:
        if policy is None:
            policy = FailurePolicy(os.fspath(summary_dir), raise_exception=True)
        self._policy = policy
        self._own: set[int] = set()  # numbers whose checkpoints this object wrote
        self._unnamed: set[int] = set()  # of them, those that no metadata name yet
        self._is_outdated = False  # whether the metadata are to be written again
        self._directory = checkpoint_dir(summary_dir)
        self._network_name = network_name
        self._settings = settings
        self.unit: str = settings.unit
        self._max_bytes = max_bytes
        # Not fsynced: a training would wait for it, and what a power cut leaves is named when it is
        # read.
        self._replacement = partial(
            replacement, mode=file_mode, root=os.fspath(summary_dir), is_synced=False
        )
        self._all_or_nothing = all_or_nothing
        known = settings.to_dict()
        groups = {str(index): interval for index, interval in enumerate(known["intervals"])}
        self._metadata: dict[str, Any] = {
            "epoch_group": groups,
            "model_params_file_map": {},
            "step_per_epoch": step_per_epoch,
        }
        self._metadata.update((key, known[key]) for key in _SETTINGS)
        self._names: dict[int, str] | None = None  # not known before the first checkpoint
        self._waiting: dict[int, dict[str, Tensor]] = {}  # taken and not written yet
        self._fitting: frozenset[int] | None = None
        self._size = 0  # bytes of a checkpoint
        self._warn_once = WarnOnce(_LOG)

    def begin(self, state_dict: Mapping[str, Any]) -> None:
        """Decide at the start of a run which checkpoints fit, and warn if some do not.

        Lazy parameters have no size yet; then :meth:`save` decides at the first checkpoint.
        """
        if not any(is_lazy(entry) for entry in state_dict.values()):
            self._decide(sum(map(_bytes, self._tensors_to_save(state_dict).values())))

    def planned(self) -> tuple[int, int] | None:
        """Return number and total bytes of the checkpoints that are going to be saved.

        The result is ``None`` before the sizes are known.
        """
        if self._fitting is None or not self._size:
            return None
        return len(self._fitting), len(self._fitting) * self._size

    def wants(self, number: int) -> bool:
        """Tell whether :meth:`save` would keep a checkpoint of this step or epoch.

        It is cheap enough to be called at every step.
        """
        if self._fitting is None:
            return self._settings.wants(number)
        return number in self._fitting

    def end_epoch(self, steps: int) -> None:
        """Write the checkpoints that are still in memory at the end of an epoch.

        ``steps`` is the number of optimizer steps that the epoch really had.
        """
        self.write()
        if steps != self._metadata["step_per_epoch"]:
            self._metadata["step_per_epoch"] = steps
            if self._names:
                self._is_outdated = True
                self._update_metadata(self._names, is_last=False)

    def save(self, number: int, state_dict: Mapping[str, Any]) -> bool:
        """Save the checkpoint of a step or epoch, if it is wanted and fits.

        Returns:
            Whether the checkpoint is wanted and fits.

        Writing a file takes as long as a step of a small network. Checkpoints of consecutive steps
        are therefore written together, all others immediately. Entries that share a tensor are
        written once. Entries that are not tensors or are sharded are skipped.
        """
        tensors = self._tensors_to_save(state_dict) if self.wants(number) else {}
        size = sum(map(_bytes, tensors.values()))
        if tensors and self._fitting is None:
            self._decide(size)
        if not tensors or not self.wants(number):
            return False
        if self._names is None:
            self._names = self._names_before(number)
        # Copied now that they are known to be kept: a large model does not fit into memory twice.
        # Small copies stay on their device until they are written, so that no step waits for it.
        stays = size * (len(self._waiting) + 1) <= _MOST_WAITING
        self._waiting[number] = {
            name: tensor.clone() if stays else tensor.to("cpu", copy=True)
            for name, tensor in tensors.items()
        }
        has_many = size * len(self._waiting) > _MOST_WAITING
        if self.unit == "epoch" or not self.wants(number + 1) or has_many:
            self.write()
        return True

    def end(self, number: int, state_dict: Mapping[str, Any]) -> None:
        """Write the checkpoints in memory after the last step or epoch, ``number``.

        If only the last checkpoint fits, it is saved now.
        """
        if self._fitting and len(self._fitting) == 1 and not self._names and not self._waiting:
            self._fitting = frozenset({number})
            self.save(number, state_dict)
        self.write(is_last=True)

    def write(self, is_last: bool = False) -> None:
        """Write the checkpoints in memory to files, then the metadata that name them.

        If the metadata cannot be written, the next call tries again.
        """
        waiting, self._waiting = self._waiting, {}
        names = {} if self._names is None else self._names
        for number, tensors in waiting.items():
            name = f"{self._network_name}_{number}_{self.unit}.ckpt"
            is_written = self._policy.attempt(
                f"checkpoint {number}",
                self._policy.call_in_reach,
                self._write_checkpoint,
                name,
                tensors,
            )
            if is_written:
                names[number] = name
                self._own.add(number)
                self._unnamed.add(number)
                self._is_outdated = True
        if self._is_outdated or (is_last and self._own):
            self._update_metadata(names, is_last)

    def _write_checkpoint(self, name: str, tensors: Mapping[str, Tensor]) -> None:
        on_cpu = {name: tensor.to("cpu") for name, tensor in tensors.items()}
        with self._replacement(os.path.join(self._directory, name)) as file:
            torch.save(on_cpu, file)

    def _update_metadata(self, names: dict[int, str], is_last: bool) -> None:
        try:
            self._drop_removed(names)
            if self._is_outdated:
                self._write_metadata(names)
            self._is_outdated = False
            self._unnamed.clear()
        except OSError as error:
            if self._policy.raise_exception:
                raise
            if is_last:
                for number in self._unnamed:
                    self._policy.write_failed(f"the name of checkpoint {number}", error)

    def _drop_removed(self, names: dict[int, str]) -> None:
        """Forget checkpoints whose files were deleted; count this run's files as lost."""
        found: set[str] = set()
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found.update(os.listdir(self._directory))
        removed = [number for number, name in names.items() if name not in found]
        for number in removed:
            del names[number]
        own = self._own.intersection(removed)
        if own:
            self._policy.records_missing([MissingRecords(len(own), is_removed=True)])
        self._own -= own
        self._unnamed -= own
        self._is_outdated |= bool(removed and names)

    def _decide(self, size: int) -> None:
        self._size = size
        wanted = sorted(set(itertools.chain.from_iterable(self._settings.intervals)))
        fitting = _fitting_numbers(self._settings.intervals, self._max_bytes // max(size, 1))
        skipped = [number for number in wanted if number not in fitting]
        self._fitting = frozenset() if skipped and self._all_or_nothing else fitting
        if not skipped:
            return
        kept = f"{self.unit} {sorted(self._fitting)} are saved, {skipped} are skipped"
        if len(self._fitting) < SHORTEST_INTERVAL:
            kept = (
                "only the last checkpoint is saved" if self._fitting else "no checkpoint is saved"
            )
        is_all_needed = self._all_or_nothing or len(fitting) >= SHORTEST_INTERVAL
        needed = (len(wanted) if is_all_needed else SHORTEST_INTERVAL) * size
        self._metadata |= {_NEEDED: needed, _ALLOWED: self._max_bytes}
        if not self._fitting and not os.path.lexists(os.path.join(self._directory, _METADATA)):
            self._write_metadata({})  # a call for the landscape reads the reason there
        _LOG.log(
            logging.INFO if self._all_or_nothing else logging.WARNING,
            "loss landscape: %d checkpoints of %.1f MB each do not fit into landscape_max_bytes=%d "
            "of SummaryCollector (an interval needs 3 checkpoints; collect_landscape may name "
            "fewer %ss); %s. Set landscape_max_bytes=%d or more",
            *(len(wanted), size / 1e6, self._max_bytes, self.unit, kept, needed),
        )

    def _names_before(self, number: int) -> dict[int, str]:
        """Return the checkpoint file names of an earlier run that this run continues.

        Only numbers before ``number`` are returned.
        """
        try:
            earlier = LandscapeCheckpoints.open(os.path.dirname(self._directory))
        except (OSError, LandscapeCheckpointError):
            return {}
        has_same_unit = earlier.settings.unit == self._settings.unit
        if not has_same_unit or earlier.settings.intervals != self._settings.intervals:
            return {}
        names = {}
        for saved, path in earlier.files.items():
            name = os.path.basename(path)
            if saved < number and name.startswith(f"{self._network_name}_"):
                names[saved] = name
        return names

    def _tensors_to_save(self, state_dict: Mapping[str, Any]) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        seen: set[object] = set()
        for name, entry in state_dict.items():
            if not isinstance(entry, Tensor) or is_lazy(entry):  # of a lazy module that has not run
                continue
            tensor = entry.detach()
            if is_sharded(tensor):
                self._warn_once.warn(
                    "sharded",
                    "loss landscape: the parameter %s is sharded over devices; sharded parameters "
                    "are not saved",
                    name,
                )
                continue
            if hasattr(tensor, "to_local"):  # a DTensor that every rank has all of
                tensor = tensor.to_local()
            if memory_of(tensor) not in seen:  # of tied weights the first name
                seen.add(memory_of(tensor))
                tensors[name] = tensor
        return tensors

    def _write_metadata(self, names: Mapping[int, str]) -> None:
        self._metadata["model_params_file_map"] = {
            str(number): name for number, name in sorted(names.items())
        }
        with self._replacement(os.path.join(self._directory, _METADATA)) as file:
            file.write(json.dumps(self._metadata).encode())


def _shortage(metadata: Mapping[str, Any]) -> str | None:
    """Return a text if a run's checkpoints exceeded the byte budget, else ``None``."""
    if _NEEDED not in metadata:
        return None
    needed, allowed = int(metadata[_NEEDED]), int(metadata[_ALLOWED])
    return (
        f"they need {needed} bytes, and landscape_max_bytes of SummaryCollector was {allowed}. "
        f"Train with landscape_max_bytes={needed} or more"
    )


def _bytes(tensor: Tensor) -> int:
    return sum(part.nbytes for part in strided_parts(tensor))


def _fitting_numbers(intervals: tuple[tuple[int, ...], ...], capacity: int) -> frozenset[int]:
    """Choose the steps or epochs to save, at most ``capacity`` checkpoints.

    The last intervals come first. Each is thinned evenly, and keeps at least 3 numbers.
    """
    wanted = frozenset(itertools.chain.from_iterable(intervals))
    if len(wanted) <= capacity:
        return wanted
    if capacity < SHORTEST_INTERVAL:
        # enough for the landscape around the last checkpoint
        return frozenset({max(wanted)} if capacity else ())
    last = intervals[-(capacity // SHORTEST_INTERVAL) :]
    share = capacity // len(last)
    fitting: set[int] = set()
    for interval in last:
        evenly = np.linspace(0, len(interval) - 1, share).round().astype(int)
        fitting.update(interval[index] for index in evenly)
    return frozenset(fitting)


@dataclass(frozen=True, slots=True)
class LandscapeCheckpoints:
    """The landscape checkpoints of a run: paths in ``files`` by step or epoch.

    The intervals of ``settings`` name the wanted steps or epochs, which may not all be saved.
    """

    directory: str
    settings: LandscapeSettings
    step_per_epoch: int
    files: Mapping[int, str]
    has_named_intervals: bool = False  # by the caller, not by the run
    shortage: str | None = None  # why checkpoints are missing, if they did not fit

    @classmethod
    def open(cls, summary_dir: str | os.PathLike[str]) -> LandscapeCheckpoints:
        """Read the metadata of a run's landscape checkpoints, but no checkpoint yet.

        Raises:
            FileNotFoundError: the run has no landscape checkpoints.
            LandscapeCheckpointError: the metadata are damaged.
        """
        directory = checkpoint_dir(summary_dir)
        path = os.path.join(directory, _METADATA)
        try:
            metadata = json.loads(read_regular(path, root=os.fspath(summary_dir)))
            recorded = {key: metadata[key] for key in _SETTINGS}
            recorded["intervals"] = list(metadata["epoch_group"].values())
            settings = LandscapeSettings.from_dict(recorded)
            files = {}
            for number, name in metadata["model_params_file_map"].items():
                # MindSpore writes absolute paths, which are wrong once a run has been moved.
                files[int(number)] = os.path.join(directory, os.path.basename(name))
            shortage = _shortage(metadata)
            if not files and shortage is not None:
                raise FileNotFoundError(
                    f"{directory} has no checkpoints for a landscape: {shortage}"
                )
            return cls(
                directory, settings, int(metadata["step_per_epoch"]), files, shortage=shortage
            )
        except FileNotFoundError:
            if os.path.lexists(path):
                raise
            raise FileNotFoundError(
                f"{path} does not exist: train the run with SummaryCollector and "
                "collect_landscape switched on, and with a landscape_max_bytes that holds the "
                "checkpoints"
            ) from None
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            keys = ", ".join(_KEYS)
            raise LandscapeCheckpointError(
                f"{path} is not JSON with the keys that a collector writes ({keys}): {error}"
            ) from error

    def with_saved_intervals(self) -> LandscapeCheckpoints:
        """Return a copy whose intervals contain only saved steps or epochs.

        Intervals with fewer than 3 of them are dropped.

        A run that was short or killed, or whose checkpoints exceeded the byte budget, has not saved
        all.

        Raises:
            LandscapeCheckpointError: no interval is left, and no final landscape can be made.
        """
        wanted = self.settings.intervals
        # Cut ones may have the same ends, which name a landscape: then the first of them stays.
        by_ends: dict[tuple[int, int], tuple[int, ...]] = {}
        for interval in wanted:
            saved = tuple(filter(self.files.__contains__, interval))
            if len(saved) >= SHORTEST_INTERVAL:
                by_ends.setdefault((saved[0], saved[-1]), saved)
        usable = tuple(by_ends.values())
        if usable == wanted or not self.settings.train:
            return self
        if not usable:
            text = (
                "no interval has the 3 checkpoints that a landscape needs: wanted "
                f"{self.settings.unit} {[list(interval) for interval in wanted]}, "
                f"found {sorted(self.files)} in {self.directory}; "
                f"{self.shortage or 'train longer, or name other intervals'}"
            )
            if not self.settings.result or not self.files:
                raise LandscapeCheckpointError(text)
            _LOG.warning(
                "loss landscape: only the landscape around the last checkpoint is computed, "
                "because %s",
                text,
            )
            return replace(self, settings=replace(self.settings, train=False))
        _LOG.info(
            "loss landscape: the checkpoints of some requested intervals were not saved, so the "
            "landscape is computed only for the intervals %s",
            [list(interval) for interval in usable],
        )
        return replace(self, settings=replace(self.settings, intervals=usable))

    def last(self) -> int:
        """Return the last step or epoch of the intervals that the caller has named.

        Without named intervals it is the last saved step or epoch; 0 without any.
        """
        if self.has_named_intervals:
            return self.settings.intervals[-1][-1]
        return max(self.files, default=0)

    def check(self, numbers: list[int]) -> None:
        """Check that every given step or epoch has a checkpoint file.

        Raises:
            LandscapeCheckpointError: a file is missing; the message names its step or epoch.
        """
        missing = [number for number in numbers if not os.path.isfile(self.files.get(number, ""))]
        if missing:
            lacking = ", ".join(map(str, missing))
            saved = sorted(number for number, path in self.files.items() if os.path.isfile(path))
            raise LandscapeCheckpointError(
                f"{self.directory} has no checkpoint of {self.settings.unit} {lacking}; "
                f"the saved checkpoints are {saved}"
            )


def mapped(path: str, names: Mapping[str, str] | None = None) -> MappedTensors:
    """Map the tensors of a checkpoint file into memory, on the CPU.

    ``names`` maps the wanted names to names in the file; ``None`` takes all tensors.

    If the file is replaced later, the tensors keep their values, because the writer renames a new
    file to the old name.

    Raises:
        LandscapeCheckpointError: the file is not a checkpoint of this package.
    """
    try:
        with open_regular(path, root=os.path.dirname(os.path.dirname(path))) as file:
            tensors: dict[str, Tensor] = torch.load(
                path_of_open(file), map_location="cpu", weights_only=True, mmap=True
            )
    except (
        Exception
    ) as error:  # torch raises pickle, zip, runtime and OS errors alike for a damaged file
        raise LandscapeCheckpointError(
            f"{path} is not a checkpoint this package wrote: {error}"
        ) from error
    found = tensors if names is None else {name: tensors[key] for name, key in names.items()}
    return MappedTensors(os.path.realpath(path), found)


class RowStore:
    """Files with the finished rows of a loss landscape, to continue after a stop.

    The folder's name must identify everything the losses depend on. Files are replaced atomically
    and not fsynced: a killed process loses no finished row, and after a power cut a row that cannot
    be read is computed again.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._root = os.path.dirname(os.path.dirname(directory))  # the run

    def rows(self, points: Sequence[NDArray[np.float64]]) -> dict[int, NDArray[np.float64]]:
        """Read the losses of the finished rows, by index of the row in ``points``."""
        finished = {}
        for index, row in enumerate(points):
            with contextlib.suppress(OSError):
                data = read_regular(self._path(index), root=self._root)
                if len(data) == 8 * len(row):
                    finished[index] = np.frombuffer(data, np.float64)
        return finished

    def write(self, index: int, losses: NDArray[np.float64]) -> None:
        """Store the losses of the finished row ``index``."""
        with replacement(self._path(index), root=self._root, is_synced=False) as file:
            file.write(np.ascontiguousarray(losses, np.float64).tobytes())

    def clear(self) -> None:
        """Delete the stored rows."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _path(self, index: int) -> str:
        return os.path.join(self.directory, f"{index:04d}.row")
