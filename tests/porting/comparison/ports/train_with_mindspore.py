"""Train every net with MindSpore and its SummaryCollector: ``python train_with_mindspore.py
DIRECTORY``.
"""

from __future__ import annotations

import os
import sys

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Parameter, Tensor, nn, ops
from mindspore.train import Model, SummaryCollector

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from data import BATCH, NETS, STEPS  # the folder is no package here

ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")


class Cnn(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 8, 3, pad_mode="pad", padding=1), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 16, 3, pad_mode="pad", padding=1), nn.BatchNorm2d(16)
        self.pool, self.relu, self.flat = nn.MaxPool2d(2, 2), nn.ReLU(), nn.Flatten()
        self.fc1, self.norm, self.fc2 = (
            nn.Dense(144, 32),
            nn.LayerNorm((32,), epsilon=1e-5),
            nn.Dense(32, 4),
        )

    def construct(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.pool(self.relu(self.bn2(self.conv2(x))))
        return self.fc2(self.norm(self.relu(self.fc1(self.flat(x)))))


class Mlp(nn.Cell):
    def __init__(self):
        super().__init__()
        self.emb, self.fc1, self.fc2 = nn.Embedding(50, 32), nn.Dense(32, 64), nn.Dense(64, 32)
        self.norm, self.head, self.act, self.mean = (
            nn.LayerNorm((32,)),
            nn.Dense(32, 4),
            nn.GELU(),
            ops.ReduceMean(),
        )

    def construct(self, x):
        h = self.emb(x)
        h = self.norm(h + self.fc2(self.act(self.fc1(h))))
        return self.head(self.mean(h, 1))


class Regression(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3, self.act = (
            nn.Dense(6, 24),
            nn.Dense(24, 24),
            nn.Dense(24, 1),
            nn.Tanh(),
        )

    def construct(self, x):
        return self.fc3(self.act(self.fc2(self.act(self.fc1(x)))))


class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Dense(16, 16) for _ in range(4))
        self.norm, self.head, self.softmax = (
            nn.LayerNorm((16,), epsilon=1e-5),
            nn.Dense(16, 2),
            nn.Softmax(),
        )
        self.product, self.mean = ops.BatchMatMul(transpose_b=True), ops.ReduceMean()
        self.mix = ops.BatchMatMul()

    def construct(self, x):
        weights = self.softmax(self.product(self.query(x), self.key(x)) / 4.0)
        h = self.norm(x + self.out(self.mix(weights, self.value(x))))
        return self.head(self.mean(h, 1))


class Recommender(nn.Cell):
    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(40, 8), nn.Embedding(40, 8)
        self.user_bias, self.item_bias = nn.Embedding(40, 1), nn.Embedding(40, 1)
        self.sum, self.sigmoid = ops.ReduceSum(), nn.Sigmoid()

    def construct(self, user, item):
        product = self.sum(self.users(user) * self.items(item), 1)
        return self.sigmoid(
            product + self.sum(self.user_bias(user), 1) + self.sum(self.item_bias(item), 1)
        )


CELLS = {
    "cnn": Cnn,
    "mlp": Mlp,
    "regression": Regression,
    "attention": Attention,
    "recommender": Recommender,
}


def name_there(name):
    """MindSpore's name of a weight of PyTorch's name."""
    layer, _, last = name.partition(".")
    if layer in ("bn1", "bn2", "norm"):
        last = {"weight": "gamma", "bias": "beta"}[last]
    if layer in ("emb", "users", "items", "user_bias", "item_bias"):
        last = "embedding_table"
    return f"{layer}.{last}"


def train(kind, directory):
    ms.set_seed(1)
    net, data = CELLS[kind](), NETS[kind]()
    ms.load_param_into_net(
        net,
        {name_there(k): Parameter(Tensor(v), name=name_there(k)) for k, v in data.weights.items()},
    )
    columns = [f"x{index}" for index in range(len(data.inputs))]
    loader = ds.NumpySlicesDataset(
        (*data.inputs, data.labels), [*columns, "y"], shuffle=False
    ).batch(BATCH)
    rate, decay, weights = data.learning_rate, data.weight_decay, net.trainable_params()
    if kind in ("mlp", "attention", "recommender"):
        optimizer = nn.Adam(weights, rate, weight_decay=decay)
    elif kind == "cnn":
        optimizer = nn.Momentum(weights, rate, 0.9, weight_decay=decay)
    else:
        optimizer = nn.SGD(weights, rate)
    is_class = kind in ("cnn", "mlp", "attention")
    loss = (
        nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        if is_class
        else nn.MSELoss()
    )
    if len(data.inputs) > 1:
        with_loss = TwoInputs(net, loss)
        model = Model(with_loss, optimizer=optimizer)
    else:
        model = Model(net, loss, optimizer)
    specified = {"histogram_regular": ".*", "collect_graph": False}
    collector = SummaryCollector(
        directory, collect_freq=1, collect_specified_data=specified, collect_tensor_freq=1
    )
    model.train(
        STEPS * BATCH // len(data.labels), loader, callbacks=[collector], dataset_sink_mode=False
    )


class TwoInputs(nn.Cell):
    def __init__(self, backbone, loss):
        super().__init__(auto_prefix=False)
        self.backbone, self.loss = backbone, loss

    def construct(self, user, item, label):
        return self.loss(self.backbone(user, item), label)


if __name__ == "__main__":
    for kind in sys.argv[2:] or CELLS:
        train(kind, os.path.join(sys.argv[1], kind))
