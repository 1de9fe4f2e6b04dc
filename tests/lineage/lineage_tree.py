"""Run directories for lineage queries: written by our codec from a seed, and a real MindSpore's
beside them.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
from collections.abc import Iterable
from pathlib import Path

from mindsummary_lightning.fileformat.file_names import file_name
from mindsummary_lightning.fileformat.framing import frame
from mindsummary_lightning.fileformat.lineage_codec import encode_lineage_event
from mindsummary_lightning.values import (
    DatasetGraph,
    EvaluationInfo,
    LineageEvent,
    Operation,
    TrainInfo,
    UserDefinedInfo,
)
from mindsummary_lightning.values.events import LineageValue

MINDSPORE_RUNS = Path(__file__).with_name("data")
NETWORKS = ("LeNet5", "ResNet-50", "Трансформер", "net with spaces", "网络", "")
OPTIMIZERS = ("Adam", "SGD", "Momentum")
METRICS = ("accuracy", "loss", "F1 score", "top/5", "точность")
CUSTOM = ("lr", "note", "seed", "nested", "версия", "a/b")
# with {} and MindSpore's two: nine marks at most, and MindInsight counts right up to eight
# pipelines
GRAPH_COUNT = 6


def record(*values: LineageValue | None) -> bytes:
    """The bytes of a lineage file with these events."""
    payloads = (
        encode_lineage_event(LineageEvent(1.0, value)) for value in values if value is not None
    )
    return b"".join(bytes(piece) for payload in payloads for piece in frame([payload]))


def write_run(
    directory: Path, *values: LineageValue, seconds: int = 100, mtime: float | None = None
) -> Path:
    """Write one lineage file with these events; later files of a run take a later ``seconds``."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / file_name("events", seconds, 0, "host", "_lineage")
    path.write_bytes(record(*values))
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return path


def write_tree(base: Path, count: int, seed: int) -> None:
    """Write ``count`` runs under ``base``, every fourth with odd contents, and a real MindSpore's
    runs beside them.
    """
    chance = random.Random(seed)
    graphs = [_graph(chance, number) for number in range(GRAPH_COUNT)]
    for number in range(count):
        name = f"run{number:03d}" if number % 7 else f"прогон {number} ✓"
        _write_random_run(base / name, chance, graphs)
    for source in sorted(MINDSPORE_RUNS.glob("mindspore_*")):
        shutil.copytree(source, base / source.name)
    _write_oddities(base, chance)
    (base / "no run").mkdir()
    (base / "linked").symlink_to(base / "run001", target_is_directory=True)
    _set_times(base, chance)


def _write_random_run(directory: Path, chance: random.Random, graphs: list[DatasetGraph]) -> None:
    for part in range(chance.choice((1, 1, 1, 2, 3))):
        values: list[LineageValue | None] = [
            _train(chance) if chance.random() < (0.85 if part == 0 else 0.3) else None,
            chance.choice(graphs) if chance.random() < 0.4 else None,
            _custom(chance) if chance.random() < 0.7 else None,
            # A later file without a metric makes MindInsight fail for every run if an earlier one
            # had it.
            _evaluation(chance) if chance.random() < 0.7 else None,
            _custom(chance) if chance.random() < 0.2 else None,
        ]
        chance.shuffle(values)
        write_run(
            directory,
            *(value for value in values if value),
            seconds=1_000 + chance.choice((part, part, 0)),
        )
    if chance.random() < 0.7:
        (directory / f"events.out.events.summary.{1_000 + chance.randrange(3)}.0.host_MS").touch()
    if chance.random() < 0.3:
        (directory / "model.pb").touch()


def _write_oddities(base: Path, chance: random.Random) -> None:
    train, evaluation = _train(chance), EvaluationInfo('{"accuracy": 0.5}', "/data/valid", 7)
    custom = UserDefinedInfo({"only": 1})
    write_run(base, train, custom)  # the base directory is a run too
    write_run(base / "custom only", custom)
    write_run(base / "empty file")
    write_run(base / "eval then train", evaluation, custom, seconds=1)
    write_run(base / "eval then train", train, seconds=2)
    write_run(base / "train then eval", train, custom, seconds=1)
    write_run(
        base / "train then eval", evaluation, UserDefinedInfo({"only": 2, "more": "x"}), seconds=2
    )
    write_run(
        base / "twice in a file",
        train,
        _train(chance),
        evaluation,
        EvaluationInfo('{"accuracy": 1}'),
    )
    write_run(base / "nothing known", TrainInfo(), EvaluationInfo(""))
    write_run(base / "no metric", EvaluationInfo(None, "/data/valid", 0))
    not_finite = {"low": -math.inf, "high": math.inf, "none": math.nan}
    write_run(
        base / "not finite",
        TrainInfo(loss=math.nan, learning_rate=math.inf),
        UserDefinedInfo(not_finite),
    )
    write_run(
        base / "numbers",
        TrainInfo(loss=1e-45, learning_rate=3.4028234663852886e38, model_size=2**40),
    )
    torn = write_run(base / "torn", train, evaluation)
    torn.write_bytes(torn.read_bytes()[:-5])
    later = write_run(base / "torn later", train, seconds=1)
    later.with_name(later.name.replace("summary.1.", "summary.2.")).write_bytes(
        record(evaluation)[:-5]
    )
    garbage = write_run(base / "unparsable", train)
    garbage.write_bytes(b"".join(bytes(piece) for piece in frame([b"\x0a\xff\xff"])))
    for name in ("events.summary.5.host_MS", "plain.txt", "model.pb"):
        (base / "no lineage" / name).parent.mkdir(exist_ok=True)
        (base / "no lineage" / name).touch()
    linked = base / "linked file"
    linked.mkdir()
    (linked / "events.summary.5.host_lineage").symlink_to(
        base / "numbers" / "events.summary.100.0.host_lineage"
    )
    deep = base / "deep" / "deeper"
    write_run(deep, train)
    same_second = base / "same second"
    for host in ("a", "b"):
        path = write_run(same_second, TrainInfo(network=host))
        path.rename(path.with_name(path.name.replace("host", host)))


def _set_times(base: Path, chance: random.Random) -> None:
    """Give every file a time of its own, several in one second, and some the same: order must not
    hang on the clock.
    """
    for path in sorted(base.rglob("*")):
        if not path.is_symlink() and path.is_file():
            nanoseconds = (1_700_000_000 + chance.randrange(20)) * 10**9 + chance.randrange(
                4
            ) * 250_000_000
            os.utime(path, ns=(nanoseconds, nanoseconds))


def _maybe(chance: random.Random, values: Iterable[object]) -> object:
    return chance.choice(list(values)) if chance.random() < 0.8 else None


def _train(chance: random.Random) -> TrainInfo:
    facts = {
        "optimizer": OPTIMIZERS,
        "learning_rate": (0.1, 0.01, 0.001, 1 / 3, 0.0),
        "loss_function": ("CrossEntropyLoss", "MSELoss"),
        "epoch": (0, 1, 5, 10, 90),
        "parallel_mode": ("stand_alone",),
        "device_num": (1, 8),
        "batch_size": (16, 32, 128),
        "train_dataset_path": ("/data/train", "/данные/обучение"),
        "train_dataset_size": (0, 60_000),
        "network": NETWORKS,
        "loss": (0.0, 0.1, 0.5, 2.3, 1 / 7, chance.random()),
        "model_path": ('{"ckpt": null}',),
        "model_size": (0, 10**6, 2**40),
    }
    return TrainInfo(**{name: _maybe(chance, values) for name, values in facts.items()})  # type: ignore[arg-type]


def _evaluation(chance: random.Random) -> EvaluationInfo:
    kinds = (
        0.0,
        0.5,
        0.9,
        1,
        0,
        chance.random(),
        "high",
        True,
        None,
        [1, 2],
        {"inner": 1},
        math.nan,
    )
    metric = {
        name: chance.choice(kinds if chance.random() < 0.2 else kinds[:6]) for name in METRICS
    }
    kept = {name: value for name, value in metric.items() if chance.random() < 0.6}
    return EvaluationInfo(
        json.dumps(kept), _maybe(chance, ("/data/valid",)), _maybe(chance, (0, 10_000))
    )  # type: ignore[arg-type]


def _custom(chance: random.Random) -> UserDefinedInfo:
    kinds = (1, -5, 0, 2**31 - 1, 0.5, -0.0, 1e300, "text", "строка ✓", "", 'quo"te\n', True)
    values: dict[str, object] = {
        name: chance.choice(kinds) for name in CUSTOM if chance.random() < 0.5
    }
    if chance.random() < 0.3:
        values["nested"] = {"inner": chance.choice(kinds), "deeper": {"x": chance.choice(kinds)}}
    return UserDefinedInfo(values or {"lr": 0.5})  # type: ignore[arg-type]


def _graph(chance: random.Random, number: int) -> DatasetGraph:
    resize = Operation({"tensor_op_name": "Resize", "tensor_op_params": "None"}, size=(number, 4))
    crop = Operation(
        {"tensor_op_name": "RandomCrop", "names": ("a", "")}, size=(8,), weights=(0.1, 0.5)
    )
    choice = Operation({"tensor_op_name": "RandomChoice", "p": 0.5}, weights=(0.25,))
    source = DatasetGraph(
        {
            "op_type": "ImageFolderDataset",
            "dataset_dir": "/данные",
            "num_samples": number,
            "shuffle": True,
        },
        sampler=Operation({"sampler_name": "DistributedSampler", "num_shards": 2})
        if chance.random() < 0.7
        else Operation(),
    )
    mapped = DatasetGraph(
        {"op_type": "MapDataset", "columns": ("image",)}, (resize, crop, choice), None, (source,)
    )
    return DatasetGraph(
        {"op_type": "BatchDataset", "batch_size": 8, "drop_remainder": False},
        (),
        None,
        (mapped, source),
    )
