"""What lies in ``<summary_dir>/ckpt_dir``: checkpoints, saved by a collector, and rows of unfinished landscapes.

``train_metadata.json`` has MindSpore's keys and names the file of each step or epoch. A checkpoint
is a flat dict of tensors, written by ``torch.save`` and read with ``weights_only=True``, so no file
can run code. No loss is computed here.
"""

from __future__ import annotations

import contextlib
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
    """The checkpoints that a landscape needs are missing, damaged or from another network."""


def checkpoint_dir(summary_dir: str | os.PathLike[str]) -> str:
    """The folder of a run that holds its landscape checkpoints (MindSpore's name)."""
    return os.path.join(os.fspath(summary_dir), "ckpt_dir")


def remove_checkpoints(summary_dir: str | os.PathLike[str]) -> None:
    """Remove the checkpoints and the rows of unfinished landscapes, if there are any."""
    shutil.rmtree(checkpoint_dir(summary_dir), ignore_errors=True)


class LandscapeCheckpointWriter:
    """Saves parameters of the wanted steps while a run trains, inside a byte budget.

    After each write the metadata names the saved files, so the checkpoints of a killed run are
    usable. :meth:`begin` or the first checkpoint decides by its size which of the wanted numbers
    fit into ``max_bytes``; one line names the others. With ``all_or_nothing`` nothing is saved
    unless every one fits. A run that continues in the same directory keeps the checkpoints before
    the number it starts with. MindInsight places epochs on the step axis with ``step_per_epoch``. A
    checkpoint that cannot be written, or is gone later, is left out of the metadata, and ``policy``
    counts it; by default it raises.
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
        self._policy = (
            FailurePolicy(os.fspath(summary_dir), raise_exception=True)
            if policy is None
            else policy
        )
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
        self._metadata: dict[str, Any] = {
            "epoch_group": {
                str(index): interval for index, interval in enumerate(known["intervals"])
            },
            "model_params_file_map": {},
            "step_per_epoch": step_per_epoch,
        } | {key: known[key] for key in _SETTINGS}
        self._names: dict[int, str] | None = None  # not known before the first checkpoint
        self._waiting: dict[int, dict[str, Tensor]] = {}  # taken and not written yet
        self._fitting: frozenset[int] | None = None
        self._size = 0  # bytes of a checkpoint
        self._warn_once = WarnOnce(_LOG)

    def begin(self, state_dict: Mapping[str, Any]) -> None:
        """Say, when a run begins, what does not fit, unless its lazy parameters have no size yet."""
        if not any(is_lazy(entry) for entry in state_dict.values()):
            self._decide(sum(map(_bytes, self._tensors_to_save(state_dict).values())))

    def planned(self) -> tuple[int, int] | None:
        """How many checkpoints are going to be saved, and their bytes; ``None`` before the sizes are known."""
        return (
            None
            if self._fitting is None or not self._size
            else (len(self._fitting), len(self._fitting) * self._size)
        )

    def wants(self, number: int) -> bool:
        """Whether :meth:`save` would write this step or epoch; cheap, for every step."""
        return self._settings.wants(number) if self._fitting is None else number in self._fitting

    def end_epoch(self, steps: int) -> None:
        """An epoch is over: write what waits, and note how many optimizer steps it really had."""
        self.write()
        if steps != self._metadata["step_per_epoch"]:
            self._metadata["step_per_epoch"] = steps
            if self._names:
                self._is_outdated = True
                self._update_metadata(self._names, is_last=False)

    def save(self, number: int, state_dict: Mapping[str, Any]) -> bool:
        """Take the tensors of ``state_dict`` as the checkpoint of ``number``; returns whether it is wanted and fits.

        To write a file takes as long as a small network's step, so those of steps directly behind
        one another are written together, and all others at once. Entries that share one tensor are
        written once, entries that are not tensors or are sharded are skipped.
        """
        tensors = self._tensors_to_save(state_dict) if self.wants(number) else {}
        size = sum(map(_bytes, tensors.values()))
        if tensors and self._fitting is None:
            self._decide(size)
        if not tensors or not self.wants(number):
            return False
        if self._names is None:
            self._names = {
                earlier: name for earlier, name in self._earlier_names().items() if earlier < number
            }
        # Copied now that they are known to be kept: a large model does not fit into memory twice.
        # Small copies stay on their device until they are written, so that no step waits for it.
        stays = size * (len(self._waiting) + 1) <= _MOST_WAITING
        self._waiting[number] = {
            name: tensor.clone() if stays else tensor.to("cpu", copy=True)
            for name, tensor in tensors.items()
        }
        if (
            self.unit == "epoch"
            or not self.wants(number + 1)
            or size * len(self._waiting) > _MOST_WAITING
        ):
            self.write()
        return True

    def end(self, number: int, state_dict: Mapping[str, Any]) -> None:
        """The run is over after ``number``: write what waits; where only the last checkpoint fits, this is it."""
        if self._fitting and len(self._fitting) == 1 and not self._names and not self._waiting:
            self._fitting = frozenset({number})
            self.save(number, state_dict)
        self.write(is_last=True)

    def write(self, is_last: bool = False) -> None:
        """Write the checkpoints that wait, and then the metadata; if these fail, the next call tries again."""
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
            for number in self._unnamed if is_last else ():
                self._policy.write_failed(f"the name of checkpoint {number}", error)

    def _drop_removed(self, names: dict[int, str]) -> None:
        """Forget checkpoints that somebody has removed, and count those of this run as lost."""
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
        wanted = sorted({number for interval in self._settings.intervals for number in interval})
        fitting = _fitting_numbers(self._settings.intervals, self._max_bytes // max(size, 1))
        skipped = [number for number in wanted if number not in fitting]
        self._fitting = frozenset() if skipped and self._all_or_nothing else fitting
        if not skipped:
            return
        kept = f"{self.unit} {sorted(self._fitting)} are saved, {skipped} are skipped"
        if len(self._fitting) < SHORTEST_INTERVAL:
            kept = "only the last one is saved" if self._fitting else "none is saved"
        is_all_needed = self._all_or_nothing or len(fitting) >= SHORTEST_INTERVAL
        needed = (len(wanted) if is_all_needed else SHORTEST_INTERVAL) * size
        self._metadata |= {_NEEDED: needed, _ALLOWED: self._max_bytes}
        if not self._fitting and not os.path.lexists(os.path.join(self._directory, _METADATA)):
            self._write_metadata({})  # for who asks for the landscape
        _LOG.log(
            logging.INFO if self._all_or_nothing else logging.WARNING,
            "loss landscape: %d checkpoints of %.1f MB do not fit into landscape_max_bytes=%d of SummaryCollector (an "
            "interval needs 3; collect_landscape may name fewer %ss); %s. Set landscape_max_bytes=%d or more",
            *(len(wanted), size / 1e6, self._max_bytes, self.unit, kept, needed),
        )

    def _earlier_names(self) -> dict[int, str]:
        try:
            earlier = LandscapeCheckpoints.open(os.path.dirname(self._directory))
        except (OSError, LandscapeCheckpointError):
            return {}
        if (earlier.settings.unit, earlier.settings.intervals) != (
            self._settings.unit,
            self._settings.intervals,
        ):
            return {}
        names = {number: os.path.basename(path) for number, path in earlier.files.items()}
        return {
            number: name
            for number, name in names.items()
            if name.startswith(f"{self._network_name}_")
        }

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
                    "loss landscape: %s is sharded over devices; such parameters are not saved",
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
    """What a run's metadata say of checkpoints that did not fit."""
    if _NEEDED not in metadata:
        return None
    needed, allowed = int(metadata[_NEEDED]), int(metadata[_ALLOWED])
    return (
        f"they need {needed} bytes, and landscape_max_bytes of SummaryCollector was {allowed}. Train with "
        f"landscape_max_bytes={needed} or more"
    )


def _bytes(tensor: Tensor) -> int:
    return sum(part.nbytes for part in strided_parts(tensor))


def _fitting_numbers(intervals: tuple[tuple[int, ...], ...], capacity: int) -> frozenset[int]:
    """The wanted numbers that fit: whole intervals thinned evenly, the last ones first, at least 3 numbers each."""
    wanted = frozenset(number for interval in intervals for number in interval)
    if len(wanted) <= capacity:
        return wanted
    if capacity < SHORTEST_INTERVAL:
        # enough for the landscape around the last checkpoint
        return frozenset({max(wanted)} if capacity else ())
    last = intervals[-(capacity // SHORTEST_INTERVAL) :]
    share = capacity // len(last)
    evenly = {
        len(interval): np.linspace(0, len(interval) - 1, share).round().astype(int)
        for interval in last
    }
    return frozenset(interval[index] for interval in last for index in evenly[len(interval)])


@dataclass(frozen=True, slots=True)
class LandscapeCheckpoints:
    """The checkpoints that a run saved for its landscapes: step or epoch -> path in ``files``.

    The intervals of ``settings`` name what was wanted, not what was saved.
    """

    directory: str
    settings: LandscapeSettings
    step_per_epoch: int
    files: Mapping[int, str]
    has_named_intervals: bool = False  # by the caller, not by the run
    shortage: str | None = None  # why checkpoints are missing, if they did not fit

    @classmethod
    def open(cls, summary_dir: str | os.PathLike[str]) -> LandscapeCheckpoints:
        """Read the metadata of a run; checkpoints are not opened yet."""
        directory = checkpoint_dir(summary_dir)
        path = os.path.join(directory, _METADATA)
        try:
            metadata = json.loads(read_regular(path, root=os.fspath(summary_dir)))
            settings = LandscapeSettings.from_dict(
                {key: metadata[key] for key in _SETTINGS}
                | {"intervals": list(metadata["epoch_group"].values())}
            )
            # MindSpore writes absolute paths, which are wrong once a run has been moved.
            names = {
                int(number): os.path.basename(name)
                for number, name in metadata["model_params_file_map"].items()
            }
            files = {number: os.path.join(directory, name) for number, name in names.items()}
            shortage = _shortage(metadata)
            if not files and shortage is not None:
                raise FileNotFoundError(
                    f"{directory} holds no checkpoints for a landscape: {shortage}"
                )
            return cls(
                directory, settings, int(metadata["step_per_epoch"]), files, shortage=shortage
            )
        except FileNotFoundError:
            if os.path.lexists(path):
                raise
            raise FileNotFoundError(
                f"{path} does not exist: train the run with SummaryCollector and collect_landscape switched on, and "
                "with a landscape_max_bytes that holds the checkpoints"
            ) from None
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise LandscapeCheckpointError(
                f"{path} is not JSON with the keys that a collector writes ({', '.join(_KEYS)}): {error}"
            ) from error

    def with_saved_intervals(self) -> LandscapeCheckpoints:
        """The same checkpoints with each interval cut to its saved numbers; intervals with fewer than 3 are dropped.

        A run that was short or killed, or whose checkpoints went over the budget, has not saved all
        of them.
        """
        wanted = self.settings.intervals
        saved = [
            tuple(number for number in interval if number in self.files) for interval in wanted
        ]
        # Cut ones may have the same ends, which name a landscape: then the first of them stays.
        by_ends = {
            (part[0], part[-1]): part for part in reversed(saved) if len(part) >= SHORTEST_INTERVAL
        }
        usable = tuple(sorted(by_ends.values(), key=saved.index))
        if usable == wanted or not self.settings.train:
            return self
        if not usable:
            text = (
                f"no interval has the 3 checkpoints a landscape needs: wanted {self.settings.unit} "
                f"{[list(interval) for interval in wanted]}, found {sorted(self.files)} "
                f"in {self.directory}; {self.shortage or 'train longer or give intervals'}"
            )
            if not self.settings.result or not self.files:
                raise LandscapeCheckpointError(text)
            _LOG.warning(
                "loss landscape: only the landscape around the last checkpoint is made: %s", text
            )
            return replace(self, settings=replace(self.settings, train=False))
        _LOG.info(
            "loss landscape: of the wanted intervals only %s were saved",
            [list(interval) for interval in usable],
        )
        return replace(self, settings=replace(self.settings, intervals=usable))

    def last(self) -> int:
        """The last checkpoint: of the intervals that the caller has named, or of all that were saved."""
        return (
            self.settings.intervals[-1][-1]
            if self.has_named_intervals
            else max(self.files, default=0)
        )

    def check(self, numbers: list[int]) -> None:
        """Raise :class:`LandscapeCheckpointError` naming the numbers without a checkpoint file."""
        missing = [number for number in numbers if not os.path.isfile(self.files.get(number, ""))]
        if missing:
            raise LandscapeCheckpointError(
                f"no checkpoint of {self.settings.unit} {', '.join(map(str, missing))} in {self.directory}; "
                f"saved are {sorted(number for number, path in self.files.items() if os.path.isfile(path))}"
            )


def mapped(path: str, names: Mapping[str, str] | None = None) -> MappedTensors:
    """The tensors of one checkpoint on the CPU, mapped from the file; ``names`` gives each of some its name there.

    A file that is replaced meanwhile stays mapped as it was: the writer renames.
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
    """Finished rows of an unfinished landscape, a small file each, so that an interrupted one can be continued.

    The folder's name must identify everything the losses depend on. Files are replaced atomically
    and not fsynced: a killed process loses nothing, and after a power cut a row that cannot be read
    is computed again.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._root = os.path.dirname(os.path.dirname(directory))  # the run

    def rows(self, points: Sequence[NDArray[np.float64]]) -> dict[int, NDArray[np.float64]]:
        """The losses of the finished rows, by their position among all rows of points."""
        finished = {}
        for index, row in enumerate(points):
            with contextlib.suppress(OSError):
                data = read_regular(self._path(index), root=self._root)
                if len(data) == 8 * len(row):
                    finished[index] = np.frombuffer(data, np.float64)
        return finished

    def write(self, index: int, losses: NDArray[np.float64]) -> None:
        """Store a finished row."""
        with replacement(self._path(index), root=self._root, is_synced=False) as file:
            file.write(np.ascontiguousarray(losses, np.float64).tobytes())

    def clear(self) -> None:
        """Remove the rows, if there are any."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def _path(self, index: int) -> str:
        return os.path.join(self.directory, f"{index:04d}.row")
