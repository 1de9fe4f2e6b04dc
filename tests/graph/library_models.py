"""Models of other libraries, each trained for a few steps the way its library trains it.

Each function takes arguments of the Trainer and returns the trained LightningModule.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import lightning as L
import numpy as np
import torch
from torch.nn import functional as F

LibraryModel = Callable[[dict[str, Any]], torch.nn.Module]


def _neuralforecast(name: str, **settings: Any) -> LibraryModel:
    def fit(trainer: dict[str, Any]) -> torch.nn.Module:
        library = importlib.import_module("neuralforecast")
        frame = importlib.import_module("neuralforecast.utils").AirPassengersDF
        model = getattr(library.models, name)(
            h=6, input_size=12, max_steps=3, random_seed=1, **settings, **trainer
        )
        fitted = library.NeuralForecast(models=[model], freq="ME")
        fitted.fit(frame)
        module: torch.nn.Module = fitted.models[0]
        return module

    return fit


def _darts(name: str, **settings: Any) -> LibraryModel:
    def fit(trainer: dict[str, Any]) -> torch.nn.Module:
        library = importlib.import_module("darts")
        models = importlib.import_module("darts.models")
        series = library.TimeSeries.from_values(np.sin(np.arange(80) / 5).astype(np.float32))
        model = getattr(models, name)(
            input_chunk_length=24,
            n_epochs=1,
            batch_size=16,
            random_state=1,
            pl_trainer_kwargs=trainer,
            **settings,
        )
        model.fit(series)
        module: torch.nn.Module = model.model
        return module

    return fit


def _pytorch_forecasting(name: str, columns: list[str], **settings: Any) -> LibraryModel:
    def fit(trainer: dict[str, Any]) -> torch.nn.Module:
        library = importlib.import_module("pytorch_forecasting")
        frame = importlib.import_module("pandas").DataFrame(
            {
                "time": [*range(60)] * 2,
                "group": ["a"] * 60 + ["b"] * 60,
                "value": np.sin(np.arange(120) / 4) + 2,
            }
        )
        frame["other"] = np.cos(np.arange(120))
        data = library.TimeSeriesDataSet(
            frame, time_idx="time", target="value", group_ids=["group"], max_encoder_length=24,
            max_prediction_length=6,
            time_varying_unknown_reals=columns, **settings,
        )  # fmt: skip
        torch.manual_seed(1)
        module: torch.nn.Module = getattr(library, name).from_dataset(data, log_interval=-1)
        L.Trainer(max_steps=3, **trainer).fit(
            module, data.to_dataloader(train=True, batch_size=16, num_workers=0)
        )
        return module

    return fit


def _pytorch_geometric(name: str) -> LibraryModel:
    def fit(trainer: dict[str, Any]) -> torch.nn.Module:
        layers = importlib.import_module("torch_geometric.nn")
        data = importlib.import_module("torch_geometric.data")
        loading = importlib.import_module("torch_geometric.loader")

        class Classifier(L.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.norm = getattr(layers, name)(8, 16), layers.BatchNorm(16)
                self.second, self.output = getattr(layers, name)(16, 16), torch.nn.Linear(16, 3)

            def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
                hidden = self.norm(self.first(batch.x, batch.edge_index)).relu()
                pooled = layers.global_mean_pool(self.second(hidden, batch.edge_index), batch.batch)
                return F.cross_entropy(self.output(pooled), batch.y)

            def configure_optimizers(self) -> Any:
                return torch.optim.Adam(self.parameters())

        torch.manual_seed(1)
        module = Classifier()
        graphs = [
            data.Data(
                x=torch.randn(10, 8),
                edge_index=torch.randint(0, 10, (2, 30)),
                y=torch.tensor([index % 3]),
            )
            for index in range(24)
        ]
        L.Trainer(max_steps=3, **trainer).fit(module, loading.DataLoader(graphs, 6))
        return module

    return fit


_TRANSFORMER = {"static_categoricals": ["group"], "add_relative_time_idx": True}

LIBRARY_MODELS: dict[str, LibraryModel] = {
    **{
        f"neuralforecast-{name}": _neuralforecast(name)
        for name in ("NHITS", "TFT", "PatchTST", "LSTM", "DeepAR")
    },
    "neuralforecast-iTransformer": _neuralforecast("iTransformer", n_series=1),
    **{
        f"darts-{name}": _darts(name, output_chunk_length=6)
        for name in ("NBEATSModel", "TCNModel", "TiDEModel")
    },
    "darts-TransformerModel": _darts("TransformerModel", output_chunk_length=6),
    "darts-TFTModel": _darts("TFTModel", output_chunk_length=6, add_relative_index=True),
    "darts-RNNModel": _darts("RNNModel", model="LSTM", training_length=30),
    "pytorch-forecasting-TFT": _pytorch_forecasting(
        "TemporalFusionTransformer", ["value", "other"], **_TRANSFORMER
    ),
    "pytorch-forecasting-NHiTS": _pytorch_forecasting("NHiTS", ["value", "other"]),
    **{
        f"pytorch-forecasting-{name}": _pytorch_forecasting(name, ["value"])
        for name in ("NBeats", "DeepAR")
    },
    **{
        f"pytorch-geometric-{name}": _pytorch_geometric(name)
        for name in ("GCNConv", "GATv2Conv", "SAGEConv", "TransformerConv")
    },
}
