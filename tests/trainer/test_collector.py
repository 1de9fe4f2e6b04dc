"""What a SummaryCollector records in an ordinary training, and how its options change that."""

from __future__ import annotations

import inspect
import io
import itertools
import json
import logging
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from mindsummary_lightning import (
    MindInsightLogger,
    SummaryCollector,
    SummaryReader,
    scalar_summary,
)
from mindsummary_lightning.collection.schedule import Schedule
from mindsummary_lightning.collection.step_values import StepValues
from tests.trainer.support import Gan, Net, errors_of, files, kinds, loader, points, steps, trainer

_ONLY = {"collect_metric": True}


class ImageNet(Net):
    """A convolution over 8x8 pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 2, 3)  # type: ignore[assignment]
        self.second = nn.Linear(72, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu().flatten(1))  # type: ignore[no-any-return]


def _pictures(batches: int = 3, batch_size: int = 4) -> DataLoader[Any]:
    x = torch.rand(batches * batch_size, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(x, (x.mean((1, 2, 3)) > 0.5).long()), batch_size)


def _fit(
    run: Path, net: Any = None, data: Any = None, validation: Any = None, **options: Any
) -> Any:
    names = {"collect_freq", "collect_specified_data", "keep_default_action", "custom_lineage_data"}
    names |= {
        "collect_tensor_freq",
        "collect_input_freq",
        "collect_gradients",
        "landscape_max_bytes",
        "loss",
    }
    collector = SummaryCollector(
        run, **{name: options.pop(name) for name in names & options.keys()}
    )
    running = trainer(logger=False, callbacks=[collector, *options.pop("callbacks", [])], **options)
    running.fit(Net() if net is None else net, loader() if data is None else data, validation)
    return running


class Endless(IterableDataset[Any]):
    def __init__(self, length: int | None) -> None:
        self.length = length

    def __iter__(self) -> Any:
        numbers = itertools.count() if self.length is None else range(self.length)
        return ((torch.full((4,), float(n % 7)), n % 2) for n in numbers)


# ---- what is recorded by default


def test_the_defaults_record_loss_parameters_graph_data_and_lineage(tmp_path: Path) -> None:
    _fit(tmp_path, ImageNet(), _pictures(), _pictures(1))

    reader = SummaryReader(tmp_path)
    names = ["first.bias", "first.weight", "second.bias", "second.weight"]
    assert reader.tags() == {
        "scalar": ["loss/auto"],
        "image": ["input_data/auto"],
        "tensor": [],
        "histogram": [f"{name}/auto" for name in names],
        "loss_landscape": [],
    }
    assert reader.graph() is not None
    lineage = reader.lineage()
    assert lineage.train is not None
    assert lineage.evaluation is not None
    assert lineage.dataset is not None
    assert lineage.custom is not None
    checkpoints = [f"ckpt_dir/ImageNet_{step}_step.ckpt" for step in (1, 2, 3)]
    assert [name for name in files(tmp_path) if "summary." not in name] == [
        *checkpoints,
        "ckpt_dir/train_metadata.json",
    ]


def test_the_loss_of_a_step_is_the_one_training_computed(tmp_path: Path) -> None:
    losses: list[float] = []

    class Noting(Net):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            loss = super().training_step(batch, batch_idx)
            losses.append(float(loss))
            return loss

    _fit(tmp_path, Noting(), collect_freq=2)

    expected = [(step, np.float32(losses[step - 1])) for step in (1, 2, 4, 6)]
    assert points(tmp_path, "loss/auto") == expected


def test_histograms_are_those_of_the_parameters_after_the_step(tmp_path: Path) -> None:
    net = Net()
    _fit(tmp_path, net, collect_freq=100)

    (first, _, _), (last, _, histogram) = SummaryReader(tmp_path).histograms("first.weight/auto")
    weight = net.first.weight.detach().numpy()
    assert (first, last) == (1, 6)
    assert (histogram.count, histogram.min, histogram.max) == (
        weight.size,
        weight.min(),
        weight.max(),
    )


def test_the_input_image_is_the_batch(tmp_path: Path) -> None:
    data = _pictures(1)
    _fit(tmp_path, ImageNet(), data)

    ((step, _, image),) = SummaryReader(tmp_path).images("input_data/auto")
    batch = data.dataset.tensors[0].numpy()  # type: ignore[attr-defined]
    expected = np.concatenate(list((batch[:, 0] * 255).astype(np.uint8)), axis=1)
    assert step == 1
    np.testing.assert_array_equal(
        np.asarray(Image.open(io.BytesIO(image.encoded)))[..., 0], expected
    )


@pytest.mark.parametrize("is_named", [False, True])
def test_a_batch_without_images_is_a_warning_only_if_images_were_asked_for(
    tmp_path: Path, is_named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    specified = {"collect_input_data": True} if is_named else None
    _fit(tmp_path, collect_freq=1, collect_specified_data=specified)

    (record,) = [record for record in caplog.records if "input_data/auto" in record.message]
    assert record.levelname == ("WARNING" if is_named else "DEBUG")


@pytest.mark.parametrize("is_named", [False, True])
def test_a_step_without_a_loss_is_a_warning_only_if_the_loss_was_asked_for(
    tmp_path: Path, is_named: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Manual(Gan):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> None:  # type: ignore[override]
            super().training_step(batch, batch_idx)

    caplog.set_level(logging.DEBUG)
    _fit(
        tmp_path,
        Manual(),
        collect_freq=1,
        collect_specified_data={"collect_metric": True} if is_named else None,
    )

    (record,) = [record for record in caplog.records if "loss/auto" in record.message]
    assert record.levelname == ("WARNING" if is_named else "DEBUG")


@pytest.mark.parametrize("option", ["histogram_regular", "collect_gradients"])
def test_an_expression_that_matches_no_parameter_is_a_warning_with_the_closest_names(
    tmp_path: Path, option: str, caplog: pytest.LogCaptureFixture
) -> None:
    pattern = "secnd.weight"
    _fit(
        tmp_path,
        collect_specified_data={"histogram_regular": pattern}
        if option == "histogram_regular"
        else None,
        collect_gradients=pattern if option == "collect_gradients" else None,
    )

    (said,) = [record.message for record in caplog.records if option in record.message]
    assert "matches no parameter" in said
    assert "second.weight" in said


def test_the_loss_can_be_a_logged_metric(tmp_path: Path) -> None:
    class Named(Gan):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> None:  # type: ignore[override]
            super().training_step(batch, batch_idx)
            self.log("train/g_loss", 10.0 + batch_idx)

    _fit(tmp_path, Named(), collect_freq=2, loss="train/g_loss")

    assert points(tmp_path, "loss/auto") == [(1, 10.0), (2, 11.0), (4, 13.0), (6, 15.0)]
    assert SummaryReader(tmp_path).lineage().train.loss == 15.0


def test_the_logged_loss_of_the_last_step_is_neither_the_epochs_mean_nor_the_validations(
    tmp_path: Path,
) -> None:
    class Stops(Net):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            self.log("loss", 10.0 + batch_idx, on_step=True, on_epoch=True)
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
            self.log("loss", 99.0)
            self.trainer.should_stop = True

    collector = SummaryCollector(tmp_path, collect_freq=4, loss="loss")
    trainer(logger=False, callbacks=[collector], max_epochs=9, limit_train_batches=3).fit(
        Stops(), loader(), loader(2)
    )

    assert points(tmp_path, "loss/auto") == [(1, 10.0), (3, 12.0)]


def test_a_loss_that_is_not_logged_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _fit(tmp_path, collect_freq=1, loss="typo")

    assert "loss/auto" not in SummaryReader(tmp_path).tags()["scalar"]
    assert sum("'typo'" in record.message for record in caplog.records) == 1


def test_a_step_is_recorded_once_though_an_epoch_ends_there(tmp_path: Path) -> None:
    _fit(tmp_path, collect_freq=3, max_epochs=2, limit_train_batches=3)

    assert [event_step for event_step, _ in points(tmp_path, "loss/auto")] == [1, 3, 6]


@pytest.mark.parametrize(
    ("epochs", "batches", "freq", "tensor_freq", "input_freq"),
    [
        (1, 6, 10, None, None),
        (2, 5, 3, 4, None),
        pytest.param(4, 10, 1, None, None, marks=pytest.mark.slow),
        pytest.param(3, 9, 2, None, 5, marks=pytest.mark.slow),
        (1, 1, 1, 1, 1),
    ],
)
def test_a_trained_run_holds_exactly_the_scheduled_steps(
    tmp_path: Path,
    epochs: int,
    batches: int,
    freq: int,
    tensor_freq: int | None,
    input_freq: int | None,
) -> None:
    _fit(
        tmp_path,
        ImageNet(),
        _pictures(batches, 1),
        max_epochs=epochs,
        collect_freq=freq,
        collect_tensor_freq=tensor_freq,
        collect_input_freq=input_freq,
        collect_specified_data={"collect_landscape": None, "collect_graph": False},
    )

    total = epochs * batches
    schedule = Schedule(freq, tensor_freq, input_freq, total)
    expected = [step for step in range(1, total + 1) if schedule.collects(step)]
    assert steps(tmp_path, "loss/auto") == expected
    assert steps(tmp_path, "first.weight/auto", "histogram") == expected
    inputs = [step for step in range(1, total + 1) if schedule.collects_inputs(step)]
    assert steps(tmp_path, "input_data/auto", "image") == inputs


# ---- collect_specified_data and keep_default_action

_FLAGS = ["collect_metric", "collect_graph", "collect_train_lineage", "collect_eval_lineage"]
_FLAGS += ["collect_input_data", "collect_dataset_graph"]


def _collected(run: Path) -> set[str]:
    reader = SummaryReader(run)
    tags, lineage = reader.tags(), reader.lineage()
    found = {
        "collect_metric": bool(tags["scalar"]),
        "collect_graph": reader.graph() is not None,
        "collect_train_lineage": lineage.train is not None and lineage.train.network is not None,
        "collect_eval_lineage": lineage.evaluation is not None,
        "collect_input_data": bool(tags["image"]),
        "collect_dataset_graph": lineage.dataset is not None,
        "histogram_regular": bool(tags["histogram"]),
        "collect_landscape": (run / "ckpt_dir").exists(),
    }
    return {name for name, is_there in found.items() if is_there}


_EVERYTHING = {*_FLAGS, "histogram_regular", "collect_landscape"}
_OFF: dict[str, Any] = {**dict.fromkeys(_FLAGS, False), "collect_landscape": None}
_ON: dict[str, Any] = {
    **dict.fromkeys(_FLAGS, True),
    "histogram_regular": None,
    "collect_landscape": {},
}
_COMBINATIONS: list[tuple[dict[str, Any] | None, bool, set[str]]] = [
    (None, True, _EVERYTHING),
    (None, False, set()),
    ({}, True, _EVERYTHING),
    ({}, False, set()),
    (_OFF, True, {"histogram_regular"}),
    (_OFF, False, set()),
    *(({name: value}, False, {name}) for name, value in _ON.items()),
    *(({name: value}, True, _EVERYTHING - {name}) for name, value in _OFF.items()),
    ({"histogram_regular": "nothing"}, True, _EVERYTHING - {"histogram_regular"}),
]


def _combination_id(value: dict[str, Any] | bool | set[str] | None) -> str:
    return "+".join(sorted(value)) if isinstance(value, set) else repr(value)[:60]


@pytest.mark.parametrize(("specified", "keep", "expected"), _COMBINATIONS, ids=_combination_id)
def test_what_is_specified_and_the_defaults_decide_what_is_collected(
    tmp_path: Path,
    specified: Any,
    keep: bool,
    expected: set[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    _fit(
        tmp_path,
        ImageNet(),
        _pictures(1),
        _pictures(1),
        collect_specified_data=specified,
        keep_default_action=keep,
    )

    assert _collected(tmp_path) == expected
    assert errors_of(caplog, tmp_path) == []


@pytest.mark.parametrize("custom", [None, {"fold": 3}])
def test_where_nothing_else_is_specified_what_is_always_is_recorded(
    tmp_path: Path, custom: Any
) -> None:
    class Saving(Net):
        def __init__(self, width: int = 3) -> None:
            super().__init__()
            self.save_hyperparameters()

    run = tmp_path / "run"
    _fit(run, Saving(), keep_default_action=False, custom_lineage_data=custom)

    assert kinds(run) == ["lineage"]
    recorded = SummaryReader(run).lineage().custom
    assert recorded.values.keys() == {*(custom or {}), "precision", "optimizer_groups"}
    assert {name: recorded.values[name] for name in custom or {}} == (custom or {})


def test_npy_files_are_exported_beside_the_tensors(tmp_path: Path) -> None:
    from mindsummary_lightning import tensor_summary

    net = Net(probe=lambda module, x: tensor_summary("in", x))
    collector = SummaryCollector(
        tmp_path,
        collect_specified_data=_ONLY,
        keep_default_action=False,
        export_options={"tensor_format": "npy"},
    )
    trainer(logger=False, callbacks=[collector], limit_train_batches=1).fit(net, loader())

    (path,) = tmp_path.glob("export_*/tensor/in_1.npy")
    np.testing.assert_array_equal(np.load(path), loader().dataset[0:4][0].numpy())


def test_no_command_line_source_text_or_variable_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "--key=of-the-command-line"])
    monkeypatch.setenv("API_KEY", "of-the-environment")
    collector = SummaryCollector(
        tmp_path, collect_freq=1, collect_output_statistics=True, collect_gradients=True
    )
    trainer(logger=False, callbacks=[collector], max_epochs=1).fit(
        ImageNet(), _pictures(), _pictures(1)
    )

    recorded = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"test_collector.py:" in recorded  # with its line
    source = [line.strip() for line in inspect.getsource(ImageNet).splitlines() if len(line) > 20]
    secrets = ["of-the-command-line", "API_KEY", "of-the-environment", *source]
    assert [text for text in secrets if text.encode() in recorded] == []


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (1, TypeError, "collect_output_statistics must be True, None or a sequence .*, got 1"),
        (b"fc", TypeError, "got b'fc'"),
        ({1}, TypeError, "got {1}"),
        ("fc", TypeError, "got 'fc'. Pass names of modules as output_statistics_modules"),
        ((), ValueError, "collect_output_statistics must name at least one step"),
        ((1, 0), ValueError, "a step of collect_output_statistics must be"),
        ((1, "fc"), TypeError, "a step of collect_output_statistics must be"),
        ((True,), TypeError, "a step of collect_output_statistics must be"),
    ],
)
def test_a_wrong_choice_of_steps_is_refused_before_anything_is_written(
    wrong: Any, error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        SummaryCollector(tmp_path / "run", collect_output_statistics=wrong)

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"output_statistics_modules": "("}, ValueError, "is not a regular expression"),
        ({"output_statistics_modules": True}, TypeError, "must be a regular expression"),
        (
            {"output_statistics_modules": "fc", "collect_output_statistics": False},
            ValueError,
            "output_statistics_modules must be None with collect_output_statistics=False",
        ),
        (
            {"collect_parameter_updates": True, "collect_parameter_statistics": False},
            ValueError,
            "collect_parameter_updates must be False with collect_parameter_statistics=False",
        ),
    ],
)
def test_a_wrong_choice_of_statistics_is_refused_before_anything_is_written(
    wrong: dict[str, Any], error: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=said):
        SummaryCollector(tmp_path / "run", **wrong)

    assert [*tmp_path.iterdir()] == []


def _names_of_outputs(path: Path, **options: Any) -> tuple[list[int], set[str]]:
    """Steps with output statistics, and the modules that have rows in them."""
    collector = SummaryCollector(path, collect_freq=1, **options)
    trainer(logger=False, callbacks=[collector], max_epochs=1).fit(Net(), loader(2))
    table = SummaryReader(path).output_statistics()
    assert table is not None
    return table.steps.tolist(), {row.name for row in table.rows if row.link == "forward"}


def test_modules_with_output_statistics_are_chosen_by_name_with_or_without_steps(
    tmp_path: Path,
) -> None:
    every_step, every_name = _names_of_outputs(tmp_path / "all", collect_output_statistics=True)
    steps, names = _names_of_outputs(tmp_path / "some", output_statistics_modules="second")
    second, same_names = _names_of_outputs(
        tmp_path / "second", output_statistics_modules="second", collect_output_statistics=(2,)
    )

    assert {"", "second"} < every_name
    assert (steps, names) == (every_step, {"second"})
    assert (second, same_names) == ([2], {"second"})


def test_updates_alone_record_the_statistics_of_every_parameter(tmp_path: Path) -> None:
    collector = SummaryCollector(tmp_path, collect_freq=1, collect_parameter_updates=True)
    net = Net()
    trainer(logger=False, callbacks=[collector], max_epochs=1).fit(net, loader(2))

    table = SummaryReader(tmp_path).parameter_statistics()
    assert table is not None
    assert table.parameters == tuple(name for name, _ in net.named_parameters())
    assert np.isfinite(table.column("update_ratio")).all()


# ---- custom lineage


def test_custom_data_stand_above_the_environment_and_the_hyper_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tuned(Net):
        def __init__(self, fold: int = 1, width: int = 2, depth: int = 3) -> None:
            super().__init__()
            self.save_hyperparameters()

    monkeypatch.setenv(
        "MINDINSIGHT_HYPER_CONFIG", json.dumps({"custom_lineage_data": {"fold": 7, "width": 8}})
    )
    _fit(tmp_path, Tuned(), custom_lineage_data={"fold": 9})

    custom = SummaryReader(tmp_path).lineage().custom
    assert {key: custom.values[key] for key in ("fold", "width", "depth")} == {
        "fold": 9,
        "width": 8,
        "depth": 3,
    }


def test_custom_data_that_the_user_names_keep_a_leading_underscore(tmp_path: Path) -> None:
    _fit(tmp_path, custom_lineage_data={"_fold": 9, "rate": float("nan")}, limit_train_batches=1)

    custom = SummaryReader(tmp_path).lineage().custom
    assert (custom.values["_fold"], custom.values["rate"]) == (9, "nan")


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"custom_lineage_data": {"a": [1]}}', " " * 100_001, "[" * 50_000]
)
def test_a_hyper_config_that_cannot_be_used_is_ignored_with_a_warning(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MINDINSIGHT_HYPER_CONFIG", text)
    _fit(tmp_path, custom_lineage_data={"fold": 9}, limit_train_batches=1)

    assert SummaryReader(tmp_path).lineage().custom.values["fold"] == 9
    assert sum("MINDINSIGHT_HYPER_CONFIG" in record.message for record in caplog.records) == 1


# ---- where training happens


def test_a_loader_that_ends_before_its_data_set_does_tells_no_size(tmp_path: Path) -> None:
    class Short(DataLoader[Any]):
        def __iter__(self) -> Any:
            return itertools.islice(super().__iter__(), 2)

    _fit(tmp_path, data=Short(loader().dataset, 4))

    train = SummaryReader(tmp_path).lineage().train
    assert (train.batch_size, train.train_dataset_size) == (4, None)  # type: ignore[union-attr]


def test_accumulated_batches_make_one_step_and_the_loss_is_their_mean(tmp_path: Path) -> None:
    losses: list[float] = []

    class Noting(Net):
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            loss = super().training_step(batch, batch_idx)
            losses.append(float(loss))
            return loss

    _fit(tmp_path, Noting(), loader(7), accumulate_grad_batches=3, collect_freq=1)

    # The last step of an epoch takes the batch that is left.
    assert [step for step, _ in points(tmp_path, "loss/auto")] == [1, 2, 3]
    expected = [sum(losses[0:3]) / 3, sum(losses[3:6]) / 3, losses[6]]
    assert [value for _, value in points(tmp_path, "loss/auto")] == pytest.approx(
        expected, rel=1e-6
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"limit_train_batches": 4, "max_epochs": 2}, [1, 4, 8]),
        ({"limit_train_batches": 0.5, "max_epochs": 2}, [1, 4, 6]),
        ({"overfit_batches": 2, "max_epochs": 3}, [1, 4, 6]),
        ({"max_steps": 5, "max_epochs": -1}, [1, 4, 5]),
        ({"val_check_interval": 2, "limit_val_batches": 1}, [1, 4, 6]),
        ({"val_check_interval": 0.5, "num_sanity_val_steps": 2}, [1, 4, 6]),
        ({"max_steps": 1}, [1]),
    ],
    ids=str,
)
def test_the_trainers_limits_are_kept_in_step(
    tmp_path: Path, options: dict[str, Any], expected: list[int]
) -> None:
    _fit(tmp_path, None, None, loader(2), collect_freq=4, **options)

    assert steps(tmp_path, "loss/auto") == expected


def test_the_last_step_of_a_run_that_stops_early_is_recorded(tmp_path: Path) -> None:
    class Stop(L.Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            trainer.should_stop = trainer.global_step >= 3

    _fit(tmp_path, collect_freq=100, max_epochs=50, min_epochs=0, callbacks=[Stop()])

    recorded = steps(tmp_path, "loss/auto")
    assert recorded == steps(tmp_path, "second.bias/auto", "histogram")
    assert recorded[0] == 1
    assert recorded[-1] < 50


def test_no_step_is_recorded_if_none_was_done(tmp_path: Path) -> None:
    _fit(tmp_path, max_steps=0)

    assert not (tmp_path / "ckpt_dir").exists()
    assert all(name.endswith("_lineage") for name in files(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "options"),
    [
        (None, {"max_steps": 300, "max_epochs": -1}),
        (300, {"max_epochs": 1}),
        (None, {"max_epochs": -1, "max_time": {"seconds": 1}}),
    ],
    ids=["steps", "one epoch of unknown length", "time"],
)
def test_a_run_of_unknown_length_keeps_at_most_twenty_images(
    tmp_path: Path, length: int | None, options: dict[str, Any]
) -> None:
    from mindsummary_lightning import tensor_summary

    net = Net(probe=lambda module, x: tensor_summary("in", x) if module.training else None)
    data = DataLoader(Endless(length), 2)
    _fit(
        tmp_path,
        net,
        data,
        collect_freq=5,
        collect_specified_data={"collect_landscape": None},
        **options,
    )

    tensors, others = steps(tmp_path, "in", "tensor"), steps(tmp_path, "loss/auto")
    assert 2 <= len(tensors) <= 20
    assert tensors[0] == others[0] == 1
    if "max_time" not in options:
        assert tensors[-1] > others[-1] / 3


@pytest.mark.parametrize("method", ["validate", "test"])
def test_an_evaluation_alone_records_its_lineage_and_nothing_else(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    logger = MindInsightLogger(tmp_path)
    limits = {"limit_val_batches": 2, "limit_test_batches": 2}
    running = trainer(logger=logger, callbacks=[SummaryCollector()], **limits)
    getattr(running, method)(Net(), loader(5), verbose=False)

    lineage = SummaryReader(logger.log_dir).lineage()
    assert list(json.loads(lineage.evaluation.metric or "{}")) == [
        "val/loss" if method == "validate" else "test/loss"
    ]
    assert lineage.evaluation.valid_dataset_size == 8
    assert lineage.train is None
    said = [message.partition(": ")[0] for message in caplog.messages if "MindInsight" in message]
    assert said == ["MindInsight files of this run"]  # not where they go while it trains


@pytest.mark.slow
def test_a_compiled_module_is_collected_like_a_plain_one(tmp_path: Path) -> None:
    class Quiet(Net):  # dynamo of torch 2.13 cannot follow Lightning's self.log
        def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
            return nn.functional.cross_entropy(self(batch[0]), batch[1])

    torch.manual_seed(0)
    _fit(tmp_path / "plain", Quiet(), limit_train_batches=2)
    torch.manual_seed(0)
    _fit(tmp_path / "compiled", torch.compile(Quiet(), backend="eager"), limit_train_batches=2)

    plain, compiled = SummaryReader(tmp_path / "plain"), SummaryReader(tmp_path / "compiled")
    assert compiled.tags() == plain.tags()
    assert points(tmp_path / "compiled", "loss/auto") == points(tmp_path / "plain", "loss/auto")


def test_values_that_arrive_late_are_recorded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StepValues, "is_ready", lambda self: False)
    _fit(tmp_path, collect_freq=1)

    assert steps(tmp_path, "loss/auto") == [1, 2, 3, 4, 5, 6]


def test_values_that_arrive_late_are_recorded_when_the_training_breaks_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(Net):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
            if batch_idx == 4:
                raise RuntimeError("mine")

    monkeypatch.setattr(StepValues, "is_ready", lambda self: False)
    with pytest.raises(RuntimeError, match="mine"):
        _fit(tmp_path, Broken(), collect_freq=1)

    assert steps(tmp_path, "loss/auto") == [1, 2, 3, 4]


def test_values_that_arrive_between_two_batches_are_recorded_before_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, seen = [False], []

    class Device(L.Callback):
        def on_train_batch_start(self, *_: Any) -> None:
            arrived[0] = False
            seen.append(steps(tmp_path, "loss/auto") if seen else [])

        def on_train_batch_end(self, *_: Any) -> None:
            arrived[0] = True

    monkeypatch.setattr(StepValues, "is_ready", lambda self: arrived[0])
    _fit(tmp_path, collect_freq=1, limit_train_batches=3, callbacks=[Device()])

    assert seen == [[], [1], [1, 2]]


def test_logged_metrics_that_a_collector_does_not_record_are_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Logs(Net):
        def on_train_epoch_end(self) -> None:
            self.log_dict(dict.fromkeys(["a", "b", "c", "epoch"], 1.0))

    caplog.set_level(logging.INFO)
    _fit(tmp_path / "alone", Logs(), limit_train_batches=1)
    (said,) = [message for message in caplog.messages if "does not record" in message]
    assert "does not record logged metrics (train/loss, a, b and 1 more)" in said
    caplog.clear()
    logger, collector = MindInsightLogger(tmp_path / "beside"), SummaryCollector()
    trainer(logger=logger, callbacks=[collector], limit_train_batches=1).fit(Logs(), loader())
    assert "does not record" not in caplog.text


def test_an_operators_value_after_a_skipped_epoch_belongs_to_no_step(tmp_path: Path) -> None:
    class Skipping(Net):
        def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
            return -1 if (self.trainer.current_epoch, batch_idx) == (0, 1) else None

        def on_train_epoch_end(self) -> None:
            scalar_summary("late", 1.0)

    _fit(tmp_path, Skipping(), loader(2), collect_freq=1, max_epochs=2)

    assert SummaryReader(tmp_path).tags()["scalar"] == ["loss/auto"]
    assert steps(tmp_path, "loss/auto") == [1, 2, 3]


# ---- hooks


# ---- gradients


def test_gradients_are_those_the_optimizer_gets(tmp_path: Path) -> None:
    taken: list[dict[str, np.ndarray]] = []

    class Noting(Net):
        def on_before_optimizer_step(self, optimizer: Any) -> None:
            taken.append({name: p.grad.numpy().copy() for name, p in self.named_parameters()})  # type: ignore[union-attr]

    _fit(
        tmp_path,
        Noting(),
        collect_freq=2,
        collect_gradients=True,
        gradient_clip_val=0.01,
        max_steps=2,
        max_epochs=-1,
    )

    reader = SummaryReader(tmp_path)
    for name in taken[0]:
        for step, _, histogram in reader.histograms(f"{name}.gradient"):
            gradient = taken[step - 1][name]
            assert (histogram.count, histogram.min, histogram.max) == (
                gradient.size,
                gradient.min(),
                gradient.max(),
            )
    norms = [
        np.sqrt(sum((gradient.astype(np.float64) ** 2).sum() for gradient in one.values()))
        for one in taken
    ]
    assert [value for _, value in points(tmp_path, "gradient_norm")] == pytest.approx(
        norms, rel=1e-5
    )


def test_gradients_of_chosen_parameters_are_recorded_beside_the_norm_of_all(tmp_path: Path) -> None:
    _fit(tmp_path, collect_gradients="second", limit_train_batches=1)

    tags = SummaryReader(tmp_path).tags()
    assert [tag for tag in tags["histogram"] if "gradient" in tag] == [
        "second.bias.gradient",
        "second.weight.gradient",
    ]
    assert "gradient_norm" in tags["scalar"]


def test_accumulated_gradients_equal_those_of_the_whole_batch(tmp_path: Path) -> None:
    for name, size, accumulated in (("whole", 8, 1), ("accumulated", 4, 2)):
        torch.manual_seed(0)
        data = DataLoader(loader(4).dataset, size)
        _fit(
            tmp_path / name,
            Net(),
            data,
            accumulate_grad_batches=accumulated,
            collect_freq=1,
            collect_gradients=True,
        )

    whole, accumulated_ = (
        points(tmp_path / "whole", "gradient_norm"),
        points(tmp_path / "accumulated", "gradient_norm"),
    )
    assert [step for step, _ in whole] == [step for step, _ in accumulated_] == [1, 2]
    assert [value for _, value in accumulated_] == pytest.approx(
        [value for _, value in whole], rel=1e-5
    )


# ---- checkpoints for landscapes


def test_landscape_checkpoints_by_epoch(tmp_path: Path) -> None:
    landscape = {"unit": "epoch", "intervals": [[1, 2, 3]]}
    _fit(
        tmp_path,
        max_epochs=3,
        limit_train_batches=2,
        collect_specified_data={"collect_landscape": landscape},
    )

    names = [name for name in files(tmp_path / "ckpt_dir") if name.endswith("ckpt")]
    assert names == ["Net_1_epoch.ckpt", "Net_2_epoch.ckpt", "Net_3_epoch.ckpt"]


# ---- input images


@pytest.mark.slow
def test_the_tensor_frequency_does_not_govern_input_images(tmp_path: Path) -> None:
    _fit(tmp_path, ImageNet(), _pictures(40, 1), collect_tensor_freq=1, collect_freq=1)

    assert len(steps(tmp_path, "input_data/auto", "image")) == 10


@pytest.mark.slow
@pytest.mark.parametrize("is_resumed", [True, False], ids=["from a checkpoint", "by its Trainer"])
def test_a_run_that_goes_on_has_at_most_ten_input_images_in_all(
    tmp_path: Path, is_resumed: bool
) -> None:
    run, saved = tmp_path / "run", tmp_path / "saved.ckpt"
    running = trainer(logger=False, callbacks=[SummaryCollector(run, collect_freq=1)])
    running.fit(ImageNet(), _pictures(30, 1))
    running.save_checkpoint(saved)
    if is_resumed:
        running = trainer(logger=False, callbacks=[SummaryCollector(run, collect_freq=1)])
    running.fit_loop.max_epochs = 4
    running.fit(ImageNet(), _pictures(30, 1), ckpt_path=saved if is_resumed else None)

    assert running.global_step == 120
    assert len(steps(run, "input_data/auto", "image")) == 10


@pytest.mark.parametrize("freq", [1, 2])
def test_the_loss_of_a_step_is_the_mean_of_the_batches_that_it_accumulates(
    tmp_path: Path, freq: int
) -> None:
    class Counting(Net):
        def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor | None:  # type: ignore[override]
            if batch_idx == 4:
                return None  # which has no part in the mean
            return super().training_step(batch, batch_idx) * 0 + float(batch_idx)

    trainer(
        callbacks=[SummaryCollector(tmp_path, freq)], logger=False, accumulate_grad_batches=3
    ).fit(Counting(), loader(8))

    means = [(1, 1.0), (2, 4.0), (3, 6.5)]  # of batches 0 to 2, 3 and 5, 6 and 7
    assert points(tmp_path, "loss/auto") == [pytest.approx(mean) for mean in means]
