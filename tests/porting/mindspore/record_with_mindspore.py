"""Train a small net in MindSpore's ways: ``python record_with_mindspore.py DIR``."""

from __future__ import annotations

import contextlib
import os
import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.train import Model

from mindsummary_lightning.mindspore import StepRecorder

assert "torch" not in sys.modules
assert "lightning" not in sys.modules

X = np.random.default_rng(1).normal(0, 1, (24, 1, 8, 8)).astype(np.float32)
Y = np.random.default_rng(2).integers(0, 4, 24).astype(np.int32)
BATCH = 8
OWN_CALL = nn.Cell.__call__


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.relu = (
            nn.Conv2d(1, 4, 3, pad_mode="pad", padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
        )
        self.flat, self.body = (
            nn.Flatten(),
            nn.SequentialCell(nn.Dense(256, 16), nn.ReLU(), nn.Dense(16, 16)),
        )
        self.fc = nn.Dense(16, 4)

    def construct(self, x):
        h = self.body(self.flat(self.relu(self.bn(self.conv(x)))))
        return self.fc(self.relu(h))


class Compiled(nn.Cell):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    @ms.jit
    def construct(self, x):
        return self.inner(x)


class Clipped(nn.TrainOneStepCell):
    def __init__(self, network, optimizer):
        super().__init__(network, optimizer)
        self.gradients = ops.value_and_grad(network, None, optimizer.parameters)

    def construct(self, *batch):
        loss, gradients = self.gradients(*batch)
        return ops.depend(loss, self.optimizer(ops.clip_by_global_norm(gradients, 0.01)))


class Loss(nn.Cell):
    """A loss of the user's, which names the parameters of what it holds ``net.``."""

    def __init__(self, net):
        super().__init__()
        self.net, self.loss = net, nn.CrossEntropyLoss()

    def construct(self, x, y):
        return self.loss(self.net(x), y)


def made(case):
    ms.set_context(mode=ms.GRAPH_MODE if case == "graph" else ms.PYNATIVE_MODE)
    net = Net()
    for place, parameter in enumerate(net.trainable_params()):
        value = np.random.default_rng(place).normal(
            1 if "gamma" in parameter.name else 0, 0.2, parameter.shape
        )
        parameter.set_data(Tensor(value.astype(np.float32)))
    if case == "recomputed":
        net.body.recompute()
    if case == "compiled":
        net.body = Compiled(net.body)
    weights = net.trainable_params()
    if case == "groups":
        biases = [weight for weight in weights if "bias" in weight.name]
        others = [weight for weight in weights if "bias" not in weight.name]
        groups = [{"params": others, "weight_decay": 0.1}, {"params": biases, "lr": 0.05}]
        return net, nn.Adam(groups, 0.01)
    scale = 1024.0 if case == "scaled" else 1.0
    return net, nn.Momentum(
        weights, nn.CosineDecayLR(0.01, 0.1, 4), 0.9, weight_decay=0.01, loss_scale=scale
    )


def train(case, recorder):
    net, optimizer = made(case)
    loss = nn.CrossEntropyLoss()
    if case == "loop":
        function = ms.value_and_grad(Loss(net), None, optimizer.parameters)
        net.set_train()
        for at in range(0, len(X), BATCH):
            x, y = Tensor(X[at : at + BATCH]), Tensor(Y[at : at + BATCH])
            step = (
                recorder.step(net, optimizer, {"x": x, "y": y})
                if recorder
                else contextlib.nullcontext(id)
            )
            with step as loss_is:
                value, gradients = function(x, y)
                optimizer(gradients)
                loss_is(value)
    else:
        data = ds.NumpySlicesDataset((X, Y), ["x", "y"], shuffle=False).batch(BATCH)
        model = Model(net, loss, optimizer)
        if case == "scaled":
            model = Model(
                net, loss, optimizer, loss_scale_manager=ms.amp.FixedLossScaleManager(1024.0, False)
            )
        if case == "own":
            model = Model(Clipped(nn.WithLossCell(net, loss), optimizer))
        model.train(1, data, callbacks=[recorder] if recorder else None, dataset_sink_mode=False)
    assert nn.Cell.__call__ is OWN_CALL, "it is still replaced"
    return {name: parameter.asnumpy() for name, parameter in net.parameters_and_names()}


if __name__ == "__main__":
    for case in ("model", "loop", "recomputed", "groups", "scaled", "own", "compiled", "graph"):
        run = os.path.join(sys.argv[1], case)
        recorded = train(
            case, StepRecorder(run, steps=(2, 3) if case == "model" else 2, whole_tensors=True)
        )
        np.savez(f"{run}-recorded.npz", **recorded)
        np.savez(f"{run}-plain.npz", **train(case, None))
    train(
        "model",
        StepRecorder(
            os.path.join(sys.argv[1], "large"),
            steps=1,
            whole_tensors=True,
            whole_tensors_max_bytes=10_000,
        ),
    )
