"""Draw ``two-counts.svg``: one loss by the collector's count of steps and the logger's.

``python docs/images/draw_two_counts.py`` trains for six steps and draws what the run holds.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path

import torch
from lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mindsummary_lightning import MindInsightLogger, SummaryCollector, SummaryReader
from mindsummary_lightning.types import ScalarSeries

STEPS = 6
WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 40, 20, 46, 44  # px around the curves
COLLECTOR, LOGGER = "#1565c0", "#c62828"


class Line(LightningModule):
    """A line that is fitted to one point."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        """Log the loss, as a user does."""
        loss = (self.weight - batch[0].mean()).square()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Plain gradient descent."""
        return torch.optim.SGD(self.parameters(), lr=0.15)


def recorded_losses(directory: str) -> tuple[ScalarSeries, ScalarSeries]:
    """The loss of one training: what the collector recorded, and what the logger did."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    logger = MindInsightLogger(directory)
    trainer = Trainer(
        accelerator="cpu",
        logger=logger,
        callbacks=[SummaryCollector(collect_freq=1)],
        max_epochs=1,
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Line(), DataLoader(TensorDataset(torch.ones(STEPS, 1))))
    reader = SummaryReader(logger.log_dir)
    return reader.scalars("loss/auto"), reader.scalars("loss")


def x_of(step: int) -> float:
    """Pixels from the left of a step between 0 and ``STEPS``."""
    return LEFT + (WIDTH - LEFT - RIGHT) * step / STEPS


def y_of(loss: float) -> float:
    """Pixels from the top of a loss between 0 and 1."""
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - loss)


def curve(series: ScalarSeries, color: str) -> list[str]:
    """Lines and dots of a series."""
    points = [
        (x_of(int(step)), y_of(float(value)))
        for step, value in zip(series.steps, series.values, strict=True)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>', *dots]


def picture(collected: ScalarSeries, logged: ScalarSeries) -> str:
    """The SVG."""
    base = y_of(0)
    ticks = [
        f'<text x="{x_of(step):.1f}" y="{base + 18:.1f}" text-anchor="middle">{step}</text>'
        for step in range(STEPS + 1)
    ]
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    font = 'font-family="sans-serif" font-size="13" fill="#333"'
    collected_title = f"loss/auto, collected: 1 to {STEPS}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} {font}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<path d="M{LEFT},{TOP} V{base:.1f} H{WIDTH - RIGHT}" fill="none" stroke="#999"/>',
        *ticks,
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">step</text>',
        f'<text x="{LEFT}" y="20" fill="{LOGGER}">loss, logged: 0 to {STEPS - 1}</text>',
        f'<text x="{LEFT + 200}" y="20" fill="{COLLECTOR}">{collected_title}</text>',
        *curve(logged, LOGGER),
        *curve(collected, COLLECTOR),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        content = picture(*recorded_losses(directory))
    Path(__file__).with_name("two-counts.svg").write_text(content, encoding="utf-8")
