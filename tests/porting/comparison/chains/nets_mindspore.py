"""Six nets in MindSpore, trained and recorded: ``python nets_mindspore.py DIRECTORY [NET ...]``."""

from __future__ import annotations

import math
import os
import sys

import mindspore as ms
import mindspore.dataset as ds
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.train import Model

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# the folder is no package here
from data import BATCH, CLASSES, HEADS, LENGTH, VOCABULARY, WIDTH, carried, task

from mindsummary_lightning.mindspore import StepRecorder

ms.set_context(mode=ms.PYNATIVE_MODE, device_target="CPU")


class Attention(nn.Cell):
    def __init__(self, is_causal):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(WIDTH, WIDTH) for _ in range(4))
        self.softmax, self.is_causal = nn.Softmax(-1), is_causal

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], HEADS, -1).transpose(0, 2, 1, 3)

    def construct(self, x):
        query, key, value = (
            self.split(self.query(x)),
            self.split(self.key(x)),
            self.split(self.value(x)),
        )
        scores = ops.matmul(query, key.transpose(0, 1, 3, 2)) / math.sqrt(WIDTH // HEADS)
        if self.is_causal:
            hidden = Tensor(np.triu(np.ones((x.shape[1], x.shape[1]), bool), 1))
            scores = ops.masked_fill(scores, hidden, -1e9)
        mixed = ops.matmul(self.softmax(scores), value)
        return self.out(mixed.transpose(0, 2, 1, 3).reshape(x.shape))


class Mlp(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1, self.act, self.fc2 = (
            nn.Dense(WIDTH, 4 * WIDTH),
            nn.GELU(approximate=False),
            nn.Dense(4 * WIDTH, WIDTH),
        )

    def construct(self, x):
        return self.fc2(self.act(self.fc1(x)))


class Block(nn.Cell):
    def __init__(self, is_causal):
        super().__init__()
        self.norm1, self.norm2 = (
            nn.LayerNorm((WIDTH,), epsilon=1e-5),
            nn.LayerNorm((WIDTH,), epsilon=1e-5),
        )
        self.attn, self.mlp = Attention(is_causal), Mlp()

    def construct(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Cell):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.CellList([Block(True) for _ in range(2)])
        self.norm = nn.LayerNorm((WIDTH,), epsilon=1e-5)

    def construct(self, x):
        h = self.tokens(x) * math.sqrt(WIDTH) + self.places(ops.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return ops.matmul(self.norm(h), self.tokens.embedding_table.T)


class BasicBlock(nn.Cell):
    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, pad_mode="pad", padding=1)
        self.bn1, self.relu = nn.BatchNorm2d(outer), nn.ReLU()
        self.conv2, self.bn2 = (
            nn.Conv2d(outer, outer, 3, pad_mode="pad", padding=1),
            nn.BatchNorm2d(outer),
        )
        self.down = nn.SequentialCell(nn.Conv2d(inner, outer, 1, stride), nn.BatchNorm2d(outer))

    def construct(self, x):
        h = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(h)) + self.down(x))


class Resnet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.relu = (
            nn.Conv2d(3, 8, 3, pad_mode="pad", padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
        )
        self.pool = nn.MaxPool2d(3, 2, pad_mode="pad", padding=1)
        self.layers = nn.SequentialCell(BasicBlock(8, 16, 1), BasicBlock(16, 32, 2))
        self.fc = nn.Dense(32, CLASSES)

    def construct(self, x):
        h = self.layers(self.pool(self.relu(self.bn(self.conv(x)))))
        return self.fc(h.mean((2, 3)))


class Recurrent(nn.Cell):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.gru, self.norm = (
            nn.GRU(2 * WIDTH, WIDTH, batch_first=True),
            nn.LayerNorm((WIDTH,), epsilon=1e-5),
        )
        self.fc1, self.act, self.fc2 = nn.Dense(WIDTH, WIDTH), nn.Tanh(), nn.Dense(WIDTH, CLASSES)

    def construct(self, x):
        mask = (x != 0).astype(ms.float32).expand_dims(-1)
        h, _ = self.lstm(self.tokens(x))
        h, _ = self.gru(h)
        h = self.norm((h * mask).sum(1) / mask.sum(1))
        return self.fc2(self.act(self.fc1(h)))


class Squeeze(nn.Cell):
    def __init__(self, width):
        super().__init__()
        self.reduce, self.expand = (
            nn.Conv2d(width, 8, 1, has_bias=True),
            nn.Conv2d(8, width, 1, has_bias=True),
        )
        self.relu, self.gate = nn.ReLU(), nn.HSigmoid()

    def construct(self, x):
        return x * self.gate(self.expand(self.relu(self.reduce(x.mean((2, 3), keep_dims=True)))))


class Inverted(nn.Cell):
    def __init__(self, inner, outer, stride, kernel):
        super().__init__()
        wide = 3 * inner
        self.expand, self.bn1, self.act = (
            nn.Conv2d(inner, wide, 1),
            nn.BatchNorm2d(wide),
            nn.HSwish(),
        )
        self.depth = nn.Conv2d(
            wide, wide, kernel, stride, pad_mode="pad", padding=kernel // 2, group=wide
        )
        self.bn2, self.se = nn.BatchNorm2d(wide), Squeeze(wide)
        self.project, self.bn3, self.adds = (
            nn.Conv2d(wide, outer, 1),
            nn.BatchNorm2d(outer),
            inner == outer,
        )

    def construct(self, x):
        h = self.act(self.bn1(self.expand(x)))
        h = self.bn3(self.project(self.se(self.act(self.bn2(self.depth(h))))))
        return x + h if self.adds else h


class Mobilenet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.stem = nn.SequentialCell(
            nn.Conv2d(3, 8, 3, 2, pad_mode="pad", padding=1), nn.BatchNorm2d(8), nn.HSwish()
        )
        self.blocks = nn.SequentialCell(
            Inverted(8, 8, 1, 3), Inverted(8, 16, 2, 5), Inverted(16, 16, 1, 3)
        )
        self.fc1, self.act, self.fc2 = nn.Dense(16, 32), nn.HSwish(), nn.Dense(32, CLASSES)

    def construct(self, x):
        return self.fc2(self.act(self.fc1(self.blocks(self.stem(x)).mean((2, 3)))))


class Vit(nn.Cell):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 4, 4, has_bias=True)
        self.cls = Parameter(Tensor(np.zeros((1, 1, WIDTH), np.float32)))
        self.places = Parameter(Tensor(np.zeros((1, 17, WIDTH), np.float32)))
        self.blocks = nn.SequentialCell(Block(False), Block(False))
        self.norm, self.head = nn.LayerNorm((WIDTH,), epsilon=1e-5), nn.Dense(WIDTH, CLASSES)

    def construct(self, x):
        h = self.patch(x).reshape(x.shape[0], WIDTH, -1).transpose(0, 2, 1)
        h = ops.cat((ops.tile(self.cls, (x.shape[0], 1, 1)), h), 1) + self.places
        return self.head(self.norm(self.blocks(h))[:, 0])


class Twice(nn.Cell):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, pad_mode="pad", padding=1, has_bias=True)
        self.conv2 = nn.Conv2d(outer, outer, 3, pad_mode="pad", padding=1, has_bias=True)
        self.norm1, self.norm2, self.act = (
            nn.GroupNorm(2, outer),
            nn.GroupNorm(2, outer),
            nn.LeakyReLU(0.1),
        )

    def construct(self, x):
        return self.act(self.norm2(self.conv2(self.act(self.norm1(self.conv1(x))))))


class Unet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.bottom = Twice(3, 8), Twice(8, 16), Twice(16, 32)
        self.pool = nn.MaxPool2d(2, 2)
        self.up2 = nn.Conv2dTranspose(32, 16, 2, 2, pad_mode="valid", has_bias=True)
        self.up1 = nn.Conv2dTranspose(16, 8, 2, 2, pad_mode="valid", has_bias=True)
        self.mix2, self.mix1, self.out = (
            Twice(32, 16),
            Twice(16, 8),
            nn.Conv2d(8, 1, 1, has_bias=True),
        )

    def construct(self, x):
        first = self.down1(x)
        second = self.down2(self.pool(first))
        h = self.up2(self.bottom(self.pool(second)))
        h = self.up1(self.mix2(ops.cat((second, h), 1)))
        return self.out(self.mix1(ops.cat((first, h), 1)))


class NextToken(nn.Cell):
    def construct(self, scores, labels):
        return ops.cross_entropy(scores.reshape(-1, VOCABULARY), labels.reshape(-1), ignore_index=0)


NETS = {
    "transformer": Transformer,
    "resnet": Resnet,
    "recurrent": Recurrent,
    "mobilenet": Mobilenet,
    "vit": Vit,
    "unet": Unet,
}
LOSSES = {"transformer": NextToken, "unet": lambda: nn.BCEWithLogitsLoss(reduction="mean")}
_THERE = {
    "gamma": "weight", "beta": "bias", "moving_mean": "running_mean",
    "moving_variance": "running_var",
    "embedding_table": "weight",
}  # fmt: skip


def name_there(name):
    """PyTorch's name of a weight."""
    path, _, last = name.rpartition(".")
    return f"{path}.{_THERE.get(last, last)}".lstrip(".")


def train(kind, directory, steps=3):
    data, net = task(kind), NETS[kind]()
    for parameter in net.get_parameters():
        parameter.set_data(Tensor(carried(name_there(parameter.name), parameter.shape)))
    loss = LOSSES.get(kind, lambda: nn.CrossEntropyLoss())()
    weights = net.trainable_params()
    rate = data.rate[0] if len({*data.rate}) == 1 else [*data.rate, data.rate[-1]]
    if data.optimizer == "adam":
        optimizer = nn.Adam(weights, rate, weight_decay=data.decay)
    elif data.optimizer == "momentum":
        optimizer = nn.Momentum(weights, rate, 0.9, weight_decay=data.decay)
    else:
        optimizer = nn.SGD(weights, rate, weight_decay=data.decay)
    loader = ds.NumpySlicesDataset((data.inputs, data.labels), ["x", "y"], shuffle=False).batch(
        BATCH
    )
    recorders = [StepRecorder(directory, steps, whole_tensors=True)] if steps else []
    Model(net, loss, optimizer).train(1, loader, callbacks=recorders, dataset_sink_mode=False)
    return {parameter.name: parameter.asnumpy() for parameter in net.get_parameters()}


if __name__ == "__main__":
    for kind in sys.argv[2:] or NETS:
        train(kind, os.path.join(sys.argv[1], kind))
        print(kind, "trained")
