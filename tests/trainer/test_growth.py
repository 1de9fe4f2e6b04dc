"""Cost grows with the work and never faster.

Counts of calls, files and bytes at growing sizes, and what stays alive.

``benchmarks/growth.py`` measures the same as time and memory.
"""

from __future__ import annotations

import gc
import os
import random
import threading
import tracemalloc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader, SummaryRecord
from mindsummary_lightning.maintenance.verify import verify_run
from mindsummary_lightning.recording.run_recorder import RunRecorder
from mindsummary_lightning.trainer.lineage_recorder import LineageRecorder
from mindsummary_lightning.viewer.loaded_runs import LoadedRuns
from tests.support import counted_calls, growth_of_calls, lineage_paths, memory_below, read_scalars
from tests.trainer.support import Net, trainer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def test_200_000_scalars_take_a_file_and_no_memory(tmp_path: Path) -> None:
    logger = MindInsightLogger(tmp_path, name="", version="run")
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    sizes, held = [0], []
    for half in range(2):
        for step in range(half * 10_000, half * 10_000 + 10_000):
            logger.log_metrics({f"m{number}": float(step) for number in range(10)}, step)
            if step % 10_000 == 100 and not tracemalloc.is_tracing():
                tracemalloc.start()
        held.append(tracemalloc.get_traced_memory()[0])
        (path,) = (tmp_path / "run").iterdir()
        sizes.append(path.stat().st_size)
    tracemalloc.stop()

    assert held[1] - held[0] < 50_000
    assert sizes[2] - sizes[1] < 1.05 * (sizes[1] - sizes[0])
    assert len(os.listdir("/proc/self/fd")) == descriptors + 1
    assert threading.active_count() == threads
    logger.finalize("success")
    assert len(os.listdir("/proc/self/fd")) == descriptors

    with memory_below(3_000_000):  # no step of a tag is kept
        assert not any(finding.is_damage for finding in verify_run(str(tmp_path / "run")))


class _Data(TensorDataset):
    pass


def test_of_1_000_fits_in_a_process_nothing_of_the_users_is_alive(tmp_path: Path) -> None:
    alive: list[weakref.ref[Any]] = []
    descriptors, threads = len(os.listdir("/proc/self/fd")), threading.active_count()

    def fit(number: int) -> None:
        net, data = Net(), _Data(torch.zeros(2, 4), torch.zeros(2, dtype=torch.long))
        logger = MindInsightLogger(tmp_path, name="", version=f"v{number}")
        collector = SummaryCollector(collect_freq=1)
        running = trainer(logger=logger, callbacks=[collector], limit_train_batches=1)
        running.fit(net, DataLoader(data, batch_size=2))
        alive.extend(
            weakref.ref(each) for each in (net, data, running, logger, collector, net.first.weight)
        )

    for number in range(1000):
        fit(number)
        if number == 20:
            gc.collect()
            before = len(gc.get_objects())
    gc.collect()
    grown = len(gc.get_objects()) - before

    assert [each() for each in alive if each() is not None] == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert threading.active_count() == threads
    # objects of each directory: its writer's place, and the weak references above
    assert grown / 979 < 60
    assert len(SummaryReader(tmp_path / "v999").tags()["scalar"]) == 2


def test_300_directories_in_rounds_are_300_files(tmp_path: Path) -> None:
    def rounds(directories: int) -> None:
        for step in range(4):
            for number in range(directories):
                with SummaryRecord(tmp_path / str(directories) / str(number)) as record:
                    record.add_scalar("a", 1.0, step)

    assert growth_of_calls(rounds, 100, 300) < 1.05
    for number in range(300):
        assert [step for step, _ in read_scalars(tmp_path / "300" / str(number), "a")] == [
            0,
            1,
            2,
            3,
        ]
        assert len(os.listdir(tmp_path / "300" / str(number))) == 1


def test_each_of_1_000_checkpoints_costs_the_same(tmp_path: Path) -> None:
    def fit(saves: int) -> None:
        data = DataLoader(
            TensorDataset(torch.zeros(saves, 4), torch.zeros(saves, dtype=torch.long))
        )
        callbacks: list[L.Callback] = [
            SummaryCollector(tmp_path / str(saves), collect_freq=10_000),
            ModelCheckpoint(
                tmp_path / f"saved{saves}", "{step}", every_n_train_steps=1, save_top_k=-1
            ),
        ]
        logger = MindInsightLogger(tmp_path, name="", version=f"logger{saves}")
        running = trainer(
            logger=logger, callbacks=callbacks, limit_train_batches=saves, enable_checkpointing=True
        )
        running.fit(Net(), data)

    # what Lightning calls of a logger, with a monitor: all that were saved
    def hand_over(saves: int) -> None:
        logger = MindInsightLogger(tmp_path, name="", version=f"handed{saves}")
        logger.log_metrics({"a": 1.0}, 0)
        known = SimpleNamespace(best_model_path="", last_model_path="", best_k_models={})
        for number in range(saves):
            known.best_k_models[f"{tmp_path}/{number}.ckpt"] = known.best_model_path = (
                f"{tmp_path}/{number}.ckpt"
            )
            logger.after_save_checkpoint(known)

    assert growth_of_calls(hand_over, 250, 1000) < 1.05
    fit(10)
    assert growth_of_calls(fit, 100, 400) < 1.05
    assert len(os.listdir(tmp_path / "saved400")) == 400
    (path,) = lineage_paths(tmp_path / "400")
    assert path.stat().st_size < 2**16


def test_each_of_2_000_evaluations_costs_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mindsummary_lightning.fileio.replace.os.fsync", lambda descriptor: None)
    written: dict[int, int] = {}

    def evaluate(times: int) -> None:
        clock = [0.0]
        recorder = RunRecorder(str(tmp_path / str(times)))
        lineage = LineageRecorder(recorder, timer=lambda: clock[0])
        written[times] = 0
        for number in range(times):
            clock[0] += 20
            metrics = {f"accuracy/{part}": number / times for part in range(10)}
            lineage.evaluation_ends(
                SimpleNamespace(
                    callback_metrics=metrics,
                    testing=False,
                    num_val_batches=[1],
                    val_dataloaders=None,
                )
            )
            (path,) = lineage_paths(tmp_path / str(times))
            written[times] += path.stat().st_size
        recorder.close()

    assert growth_of_calls(evaluate, 500, 2000) < 1.05
    assert written[2000] < 2000 * 1000  # bytes; with every event in the file it would be 148 MB
    assert lineage_paths(tmp_path / "2000")[0].stat().st_size < 2**16


def test_steps_of_1_000_different_sets_of_metrics_are_read_at_the_same_cost_each(
    tmp_path: Path,
) -> None:
    names = [f"metric{number:02d}" for number in range(20)]
    chance = random.Random(1)
    sets = [chance.sample(names, 8) for _ in range(1000)]
    for steps in (4000, 16000):
        logger = MindInsightLogger(tmp_path, name="", version=str(steps))
        for step in range(steps):
            logger.log_metrics(dict.fromkeys(sets[step % 1000], float(step)), step)
        logger.finalize("success")

    def read(steps: int) -> None:
        scalars = SummaryReader(tmp_path / str(steps)).all_scalars()
        assert sum(len(series.steps) for series in scalars.values()) == 8 * steps

    def verify(steps: int) -> None:
        assert not any(finding.is_damage for finding in verify_run(str(tmp_path / str(steps))))

    with counted_calls() as counted:
        read(16000)
    # comparisons of a batch of records with the layout of one set
    assert counted["frombuffer"] < 200
    assert growth_of_calls(read, 4000, 16000) < 1.05
    assert growth_of_calls(verify, 4000, 16000) < 1.05


def test_a_look_at_a_growing_run_costs_the_same_beside_1_000_others(tmp_path: Path) -> None:
    for number in range(1000):
        with SummaryRecord(tmp_path / str(number)) as record:
            record.add_scalar("a", 1.0, 1)
    runs = LoadedRuns(str(tmp_path), clock=lambda: 0.0)  # lists the directories once
    step = iter(range(2, 1000))

    def look(times: int) -> None:
        for _ in range(times):
            with SummaryRecord(tmp_path / "0") as record:
                record.add_scalar("a", 1.0, next(step))
            assert runs.run("./0") is not None

    look(1)
    with counted_calls() as alone:
        look(20)
    for number in range(1000):
        runs.run(f"./{number}")
    with counted_calls() as beside:
        look(20)

    assert beside.total() < 1.05 * alone.total()
