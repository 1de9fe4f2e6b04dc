"""Parameters of well-known networks under the names of two libraries, with the numbers that two
trainings record.

Names, shapes and order are as the libraries have them; widths are smaller, and weights are random.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mindsummary_lightning.porting.comparison.matching.tensor_names import TensorName

Row = tuple[str, str, tuple[int, ...], str]  # the names in both, the shape, how it begins
_NORM = (("weight", "gamma", "ones"), ("bias", "beta", "zeros"))


@dataclass(frozen=True)
class World:
    """A network under two namings; ``rows`` belong together, in the order of the first.

    Attributes:
        rows: names, shape and beginning of each tensor.
        order_b: the order in the second library, by places in ``rows``.
        alone_a: what only the first holds, with its size.
        alone_b: what only the second holds.
    """

    rows: tuple[Row, ...]
    order_b: tuple[int, ...]
    alone_a: tuple[tuple[str, int], ...] = ()
    alone_b: tuple[tuple[str, int], ...] = ()

    @property
    def pairs(self) -> dict[str, str]:
        """Names that belong together."""
        return {one: other for one, other, _, _ in self.rows}

    def sides(
        self, change: str = "", values: bool = True
    ) -> tuple[list[TensorName], list[TensorName]]:
        """The tensors of both runs after the first step; ``change`` is ``rate``, ``optimizer`` or
        ``weights``.
        """
        random, other = np.random.default_rng(1), np.random.default_rng(2)
        there: dict[str, TensorName] = {}
        here: list[TensorName] = []
        for one, two, shape, begins in self.rows:
            first = _begin(random, shape, begins)
            again = _begin(other, shape, begins) if change == "weights" else first
            gradient = random.normal(0, 0.05 * random.lognormal(), shape)
            theirs = (
                gradient + 1e-6 * other.normal(size=shape)
                if change != "weights"
                else other.normal(0, 0.05, shape)
            )
            step = (
                0.02 * theirs
                if change == "rate"
                else 1e-3 * np.sign(theirs)
                if change == "optimizer"
                else 0.01 * theirs
            )
            here.append(_recorded(one, first - 0.01 * gradient, values))
            there[two] = _recorded(two, again - step, values)
        b = [there[self.rows[at][1]] for at in self.order_b]
        extra = ([_recorded(name, random.normal(size=size), values) for name, size in self.alone_a],
                 [_recorded(name, random.normal(size=size), values) for name,
                 size in self.alone_b])  # fmt: skip
        return here + extra[0], b + extra[1]


def _begin(random: np.random.Generator, shape: tuple[int, ...], begins: str) -> np.ndarray:
    if begins in ("ones", "zeros"):
        return np.full(shape, float(begins == "ones"))
    if begins == "uniform":
        return random.uniform(-1, 1, shape) * np.prod(shape[1:], initial=1.0) ** -0.5
    return random.normal(
        0, 0.02 if begins == "small" else np.prod(shape[1:], initial=1.0) ** -0.5, shape
    )


def _recorded(name: str, values: np.ndarray, has_values: bool) -> TensorName:
    numbers = (float(values.min()), float(values.max()), float(values.mean())) if has_values else ()
    return TensorName(name, int(values.size), numbers)


def _world(
    rows: Any, order: Callable[[list[str]], list[str]] = lambda names: names, **alone: Any
) -> World:
    rows = tuple(rows)
    names = [other for _, other, _, _ in rows]
    return World(rows, tuple(names.index(name) for name in order(names)), **alone)


def _norm(one: str, other: str, size: int) -> Iterator[Row]:
    for here, there, begins in _NORM:
        yield f"{one}.{here}", f"{other}.{there}", (size,), begins


def _dense(
    one: str, other: str, inputs: int, outputs: int, begins: str = "uniform", bias: bool = True
) -> Iterator[Row]:
    yield f"{one}.weight", f"{other}.weight", (outputs, inputs), begins
    if bias:
        yield f"{one}.bias", f"{other}.bias", (outputs,), "zeros"


def _conv(
    one: str, other: str, inputs: int, outputs: int, kernel: int = 3, bias: bool = False
) -> Iterator[Row]:
    yield f"{one}.weight", f"{other}.weight", (outputs, inputs, kernel, kernel), "normal"
    if bias:
        yield f"{one}.bias", f"{other}.bias", (outputs,), "zeros"


def _table(one: str, other: str, rows: int, width: int) -> Iterator[Row]:
    yield f"{one}.weight", f"{other}.embedding_table", (rows, width), "small"


# ---- networks of pictures: torchvision or timm, and mindcv


def _resnet(blocks: tuple[int, ...], deep: bool, other_names: bool) -> Iterator[Row]:
    """torchvision's, and mindcv's or that of MindSpore's model zoo (``end_point``,
    ``down_sample_layer``).
    """
    down, head = (
        ("down_sample_layer", "end_point") if other_names else ("down_sample", "classifier")
    )
    yield from _conv("conv1", "conv1", 3, 16, 7)
    yield from _norm("bn1", "bn1", 16)
    width = 16
    for stage, count in enumerate(blocks, 1):
        inner = 16 * 2 ** (stage - 1)
        outer = 4 * inner if deep else inner
        for block in range(count):
            name = f"layer{stage}.{block}"
            shapes = (
                ((width, inner, 1), (inner, inner, 3), (inner, outer, 1))
                if deep
                else ((width, inner, 3), (inner, inner, 3))
            )
            for number, (inputs, outputs, kernel) in enumerate(shapes, 1):
                yield from _conv(
                    f"{name}.conv{number}", f"{name}.conv{number}", inputs, outputs, kernel
                )
                yield from _norm(f"{name}.bn{number}", f"{name}.bn{number}", outputs)
            if block == 0 and width != outer:
                yield from _conv(f"{name}.downsample.0", f"{name}.{down}.0", width, outer, 1)
                yield from _norm(f"{name}.downsample.1", f"{name}.{down}.1", outer)
            width = outer
    yield from _dense("fc", head, width, 100)


def _mobilenet() -> Iterator[Row]:
    """torchvision's ``features.N.conv.M.K`` against one flat list of mindcv's."""
    at = 0

    def unit(one: str, inputs: int, outputs: int, kernel: int, norm: str) -> Iterator[Row]:
        nonlocal at
        yield from _conv(f"{one}", f"features.{at}.features.0", inputs, outputs, kernel)
        yield from _norm(norm, f"features.{at}.features.1", outputs)
        at += 1

    yield from unit("features.0.0", 3, 16, 3, "features.0.1")
    width = 16
    plan = ((1, 8, 1), (6, 12, 2), (6, 16, 3), (6, 24, 4), (6, 32, 3), (6, 40, 3), (6, 64, 1))
    index = 1
    for expand, outputs, count in plan:
        for _ in range(count):
            name, place = f"features.{index}.conv", 0
            if expand > 1:
                yield from unit(f"{name}.{place}.0", width, width * expand, 1, f"{name}.{place}.1")
                place += 1
            yield from unit(f"{name}.{place}.0", 1, width * expand, 3, f"{name}.{place}.1")
            yield from unit(
                f"{name}.{place + 1}", width * expand, outputs, 1, f"{name}.{place + 2}"
            )
            width, index = outputs, index + 1
    yield from unit(f"features.{index}.0", width, 128, 1, f"features.{index}.1")
    yield from _dense("classifier.1", "classifier.1", 128, 100)


def _vgg(norm: bool) -> Iterator[Row]:
    width, at = 3, 0
    for outputs in (16, -1, 32, -1, 64, 64, -1, 96, 96, -1):
        if outputs > 0:
            yield from _conv(f"features.{at}", f"layers.{at}", width, outputs, 3, True)
            if norm:
                yield from _norm(f"features.{at + 1}", f"layers.{at + 1}", outputs)
            width, at = outputs, at + (3 if norm else 2)
        else:
            at += 1
    for one, other, inputs, outputs in ((0, 0, 384, 128), (3, 3, 128, 128), (6, 6, 128, 100)):
        yield from _dense(f"classifier.{one}", f"classifier.{other}", inputs, outputs, "small")


def _densenet() -> Iterator[Row]:
    yield from _conv("features.conv0", "features.conv0", 3, 16, 7)
    yield from _norm("features.norm0", "features.norm0", 16)
    width = 16
    for block, count in enumerate((3, 4, 6, 4), 1):
        for layer in range(1, count + 1):
            one, other = (
                f"features.denseblock{block}.denselayer{layer}",
                f"features.dense_block{block}.denselayer{layer}",
            )
            yield from _norm(f"{one}.norm1", f"{other}.norm1", width)
            yield from _conv(f"{one}.conv1", f"{other}.conv1", width, 32, 1)
            yield from _norm(f"{one}.norm2", f"{other}.norm2", 32)
            yield from _conv(f"{one}.conv2", f"{other}.conv2", 32, 8, 3)
            width += 8
        if block < 4:
            one, other = f"features.transition{block}", f"features.transition_{block}.features"
            yield from _norm(f"{one}.norm", f"{other}.norm", width)
            yield from _conv(f"{one}.conv", f"{other}.conv", width, width // 2, 1)
            width //= 2
    yield from _norm("features.norm5", "features.norm5", width)
    yield from _dense("classifier", "classifier", width, 100)


def _convnext() -> Iterator[Row]:
    """timm's ``stages.0.blocks.1.mlp.fc1`` against mindcv's ``feature.1.1.pwconv1``; a scale of a
    layer is its own.
    """
    yield from _conv("stem.0", "feature.0.0", 3, 16, 4, True)
    yield from _norm("stem.1", "feature.0.1", 16)
    width = 16
    for stage, count in enumerate((2, 2, 4, 2)):
        if stage:
            yield from _norm(f"stages.{stage}.downsample.0", f"feature.{2 * stage}.0", width)
            yield from _conv(
                f"stages.{stage}.downsample.1", f"feature.{2 * stage}.1", width, 2 * width, 2, True
            )
            width *= 2
        for block in range(count):
            one, other = f"stages.{stage}.blocks.{block}", f"feature.{2 * stage + 1}.{block}"
            yield f"{one}.gamma", f"{other}.gamma_", (width,), "ones"
            yield from _conv(f"{one}.conv_dw", f"{other}.dwconv", 1, width, 7, True)
            yield from _norm(f"{one}.norm", f"{other}.norm", width)
            yield from _dense(f"{one}.mlp.fc1", f"{other}.pwconv1", width, 4 * width, "small")
            yield from _dense(f"{one}.mlp.fc2", f"{other}.pwconv2", 4 * width, width, "small")
    yield from _norm("head.norm", "norm", width)
    yield from _dense("head.fc", "classifier", width, 100, "small")


def _vit(width: int = 48, depth: int = 6) -> Iterator[Row]:
    """timm's, and mindcv's with other words for the blocks."""
    yield "cls_token", "class_embedding", (1, 1, width), "small"
    yield "pos_embed", "position_embedding", (1, 17, width), "small"
    yield from _conv("patch_embed.proj", "patch_embedding.conv", 3, width, 4, True)
    for block in range(depth):
        one, other = f"blocks.{block}", f"transformer.layers.{block}"
        yield from _norm(f"{one}.norm1", f"{other}.0.norm", width)
        yield from _dense(
            f"{one}.attn.qkv", f"{other}.0.attention.to_qkv", width, 3 * width, "small"
        )
        yield from _dense(f"{one}.attn.proj", f"{other}.0.attention.out", width, width, "small")
        yield from _norm(f"{one}.norm2", f"{other}.1.norm", width)
        yield from _dense(f"{one}.mlp.fc1", f"{other}.1.ffn.dense1", width, 4 * width, "small")
        yield from _dense(f"{one}.mlp.fc2", f"{other}.1.ffn.dense2", 4 * width, width, "small")
    yield from _norm("norm", "norm", width)
    yield from _dense("head", "head.dense", width, 100, "small")


# ---- transformers and peft, MindFormers and MindSpore's model zoo


def _bert(depth: int, apart: bool) -> Iterator[Row]:
    top = "bert.bert" if apart else "bert"
    yield from _table("bert.embeddings.word_embeddings", f"{top}.bert_embedding_lookup", 500, 48)
    post = f"{top}.bert_embedding_postprocessor"
    yield from _table(
        "bert.embeddings.position_embeddings", f"{post}.full_position_embedding", 64, 48
    )
    yield from _table(
        "bert.embeddings.token_type_embeddings", f"{post}.token_type_embedding", 2, 48
    )
    yield from _norm("bert.embeddings.LayerNorm", f"{post}.layernorm", 48)
    for layer in range(depth):
        one, other = f"bert.encoder.layer.{layer}", f"{top}.bert_encoder.layers.{layer}"
        for part in ("query", "key", "value"):
            yield from _dense(
                f"{one}.attention.self.{part}",
                f"{other}.attention.attention.{part}_layer",
                48,
                48,
                "small",
            )
        yield from _dense(
            f"{one}.attention.output.dense", f"{other}.attention.output.dense", 48, 48, "small"
        )
        yield from _norm(
            f"{one}.attention.output.LayerNorm", f"{other}.attention.output.layernorm", 48
        )
        yield from _dense(f"{one}.intermediate.dense", f"{other}.intermediate", 48, 192, "small")
        yield from _dense(f"{one}.output.dense", f"{other}.output.dense", 192, 48, "small")
        yield from _norm(f"{one}.output.LayerNorm", f"{other}.output.layernorm", 48)
    yield from _dense("bert.pooler.dense", f"{top}.dense", 48, 48, "small")


def _gpt() -> Iterator[Row]:
    yield from _table("transformer.wte", "backbone.embedding.word_embedding", 500, 48)
    yield from _table("transformer.wpe", "backbone.embedding.position_embedding", 64, 48)
    for layer in range(6):
        one, other = f"transformer.h.{layer}", f"backbone.blocks.{layer}"
        yield from _norm(f"{one}.ln_1", f"{other}.layernorm1", 48)
        yield from _dense(f"{one}.attn.c_proj", f"{other}.attention.projection", 48, 48, "small")
        yield from _norm(f"{one}.ln_2", f"{other}.layernorm2", 48)
        yield from _dense(f"{one}.mlp.c_fc", f"{other}.output.mapping", 48, 192, "small")
        yield from _dense(f"{one}.mlp.c_proj", f"{other}.output.projection", 192, 48, "small")
    yield from _norm("transformer.ln_f", "backbone.layernorm", 48)


def _fused(alone: list[tuple[str, int]], apart: list[tuple[str, int]]) -> World:
    for layer in range(6):
        alone += [
            (f"transformer.h.{layer}.attn.c_attn.weight", 48 * 144),
            (f"transformer.h.{layer}.attn.c_attn.bias", 144),
        ]
        for part in ("dense1", "dense2", "dense3"):
            name = f"backbone.blocks.{layer}.attention.{part}"
            apart += [(f"{name}.weight", 48 * 48), (f"{name}.bias", 48)]
    return _world(_gpt(), alone_a=tuple(alone), alone_b=tuple(apart))


def _llama(depth: int = 6) -> Iterator[Row]:
    yield from _table("model.embed_tokens", "model.tok_embeddings", 500, 48)
    for layer in range(depth):
        one, other = f"model.layers.{layer}", f"model.layers.{layer}"
        for here, there in (("q_proj", "wq"), ("k_proj", "wk"), ("v_proj", "wv"), ("o_proj", "wo")):
            yield from _dense(
                f"{one}.self_attn.{here}", f"{other}.attention.{there}", 48, 48, "small", False
            )
        for here, there, shape in (
            ("gate_proj", "w1", (48, 128)),
            ("up_proj", "w3", (48, 128)),
            ("down_proj", "w2", (128, 48)),
        ):
            yield from _dense(
                f"{one}.mlp.{here}", f"{other}.feed_forward.{there}", *shape, "small", False
            )
        yield f"{one}.input_layernorm.weight", f"{other}.attention_norm.weight", (48,), "ones"
        yield f"{one}.post_attention_layernorm.weight", f"{other}.ffn_norm.weight", (48,), "ones"
    yield "model.norm.weight", "model.norm_out.weight", (48,), "ones"
    yield from _dense("lm_head", "lm_head", 48, 500, "small", False)


def _lora() -> Iterator[Row]:
    for layer in range(12):
        one, other = (
            f"base_model.model.model.layers.{layer}.self_attn",
            f"model.layers.{layer}.attention",
        )
        for here, there in (("q_proj", "wq"), ("v_proj", "wv")):
            yield (
                f"{one}.{here}.lora_A.default.weight",
                f"{other}.{there}.mindpet_delta_lora_a",
                (8, 48),
                "uniform",
            )
            yield (
                f"{one}.{here}.lora_B.default.weight",
                f"{other}.{there}.mindpet_delta_lora_b",
                (48, 8),
                "zeros",
            )


def _t5() -> Iterator[Row]:
    yield from _table("shared", "t5_model.embedding_lookup", 500, 48)
    for side, there in (("encoder", "tfm_encoder"), ("decoder", "tfm_decoder")):
        for block in range(3):
            one, other = f"{side}.block.{block}.layer", f"t5_model.{there}.layers.{block}"
            for number, part in enumerate(
                ("attention", "cross_attention") if side == "decoder" else ("attention",)
            ):
                inner = "EncDecAttention" if number else "SelfAttention"
                for here, word in (
                    ("q", "dense1"),
                    ("k", "dense2"),
                    ("v", "dense3"),
                    ("o", "projection"),
                ):
                    yield from _dense(
                        f"{one}.{number}.{inner}.{here}",
                        f"{other}.{part}.{word}",
                        48,
                        48,
                        "small",
                        False,
                    )
                yield (
                    f"{one}.{number}.layer_norm.weight",
                    f"{other}.layernorm_{part}.gamma",
                    (48,),
                    "ones",
                )
            last = 2 if side == "decoder" else 1
            for here, word, shape in (("wi", "mapping", (48, 96)), ("wo", "projection", (96, 48))):
                yield from _dense(
                    f"{one}.{last}.DenseReluDense.{here}",
                    f"{other}.output.{word}",
                    *shape,
                    "small",
                    False,
                )
            yield (
                f"{one}.{last}.layer_norm.weight",
                f"{other}.layernorm_output.gamma",
                (48,),
                "ones",
            )
        yield f"{side}.final_layer_norm.weight", f"t5_model.{there}.layernorm.gamma", (48,), "ones"


def _lstm() -> Iterator[Row]:
    yield from _table("embedding", "encoder.embedding", 200, 32)
    for layer in range(2):
        for part, shape in (
            ("weight_ih", (128, 32)),
            ("weight_hh", (128, 32)),
            ("bias_ih", (128,)),
            ("bias_hh", (128,)),
        ):
            yield f"rnn.{part}_l{layer}", f"encoder.lstm.{part}_l{layer}", shape, "uniform"
    yield from _dense("decoder", "head", 32, 10)


def _unet() -> Iterator[Row]:
    width = 3
    for level, outputs in enumerate((16, 32, 64, 96)):
        one, other = (f"downs.{level}", f"down{level}") if level else ("inc", "c0")
        for number, at in ((0, 0), (1, 3)):
            yield from _conv(
                f"{one}.double_conv.{at}",
                f"{other}.multi_conv.{number}.conv",
                width,
                outputs,
                3,
                True,
            )
            yield from _norm(
                f"{one}.double_conv.{at + 1}", f"{other}.multi_conv.{number}.bn", outputs
            )
            width = outputs
    for level, outputs in enumerate((64, 32, 16)):
        yield from _conv(f"ups.{level}.up", f"up{level}.deconv", width, outputs, 2, True)
        for number, inputs in enumerate((2 * outputs, outputs)):
            yield from _conv(
                f"ups.{level}.conv.{number}",
                f"up{level}.multi_conv.{number}.conv",
                inputs,
                outputs,
                3,
                True,
            )
        width = outputs
    yield from _conv("outc", "final", width, 2, 1, True)


# ---- the same names in wrappers, from one, or in another order


def _renamed(rows: Any, a: Callable[[str], str] = str, b: Callable[[str], str] = str) -> World:
    return _world((a(one), b(other), shape, begins) for one, other, shape, begins in rows)


def _from_one(name: str) -> str:
    return ".".join(str(int(word) + 1) if word.isdigit() else word for word in name.split("."))


def _layers_last(names: list[str]) -> list[str]:
    """As where a library makes its first and last layers before the blocks."""
    is_block = [any(word.isdigit() for word in name.split(".")) for name in names]
    return [n for n, block in zip(names, is_block, strict=True) if not block] + [
        n for n, block in zip(names, is_block, strict=True) if block
    ]


def _swapped(names: list[str]) -> list[str]:
    """Projections of one size in another order: query, value, key."""
    order = {"query_layer": 0, "value_layer": 1, "key_layer": 2}
    keyed = [
        (name, next((rank for word, rank in order.items() if word in name), None)) for name in names
    ]
    result: list[str] = []
    for name, rank in keyed:
        if rank is None:
            result.append(name)
        elif rank == 0:
            stem = name.rpartition("query_layer")[0]
            result += [
                f"{stem}{word}.{kind}" for word in order for kind in ("weight", "bias")
            ] * name.endswith("weight")
    return result


_SMALL, _DEEP = (2, 2, 2, 2), (3, 4, 6, 3)
WORLDS: dict[str, World] = {
    "resnet18 mindcv": _world(_resnet(_SMALL, False, False)),
    "resnet18 zoo": _world(_resnet(_SMALL, False, True)),
    "resnet34 mindcv": _world(_resnet(_DEEP, False, False)),
    "resnet50 mindcv": _world(_resnet(_DEEP, True, False)),
    "resnet50 zoo": _world(_resnet(_DEEP, True, True)),
    "resnet101 zoo": _world(_resnet((3, 4, 23, 3), True, True)),
    "resnet18 in net.backbone": _renamed(
        _resnet(_SMALL, False, False), lambda name: f"net.backbone.{name}"
    ),
    "resnet50 in a training cell": _renamed(
        _resnet(_DEEP, True, True), b=lambda name: f"network._backbone.{name}"
    ),
    "resnet18 compiled": _renamed(_resnet(_SMALL, False, False), lambda name: f"_orig_mod.{name}"),
    "resnet50 from one": _renamed(_resnet(_DEEP, True, False), b=_from_one),
    "mobilenet": _world(_mobilenet()),
    "mobilenet in data parallel": _renamed(_mobilenet(), lambda name: f"module.{name}"),
    "vgg": _world(_vgg(False)),
    "vgg with norms": _world(_vgg(True)),
    "vgg from one": _renamed(_vgg(True), b=_from_one),
    "densenet": _world(_densenet()),
    "densenet in net.backbone": _renamed(_densenet(), lambda name: f"net.backbone.{name}"),
    "convnext": _world(_convnext()),
    "convnext from one": _renamed(_convnext(), b=_from_one),
    "vit": _world(_vit()),
    "vit, large": _world(_vit(64, 12)),
    "vit in a model": _renamed(
        _vit(), lambda name: f"model.{name}", lambda name: f"backbone.{name}"
    ),
    "bert": _world(_bert(6, False)),
    "bert, twelve layers": _world(_bert(12, True)),
    "bert, other top": _renamed(_bert(4, False), lambda name: name.replace("bert.", "roberta.", 1)),
    "bert, other order": _world(_bert(4, False), _swapped),
    "gpt, fused": _fused([], []),
    "llama": _world(_llama()),
    "llama, twelve layers": _world(_llama(12)),
    "llama, layers last": _world(_llama(), _layers_last),
    "llama, compiled": _renamed(
        _llama(), lambda name: name.replace("layers.", "layers._orig_mod.")
    ),
    "lora": _world(_lora()),
    "t5": _world(_t5()),
    "lstm": _world(_lstm()),
    "unet": _world(_unet()),
    "unet in fsdp": _renamed(
        _unet(), lambda name: f"_fsdp_wrapped_module.{name}", lambda name: f"net.{name}"
    ),
}


def counts(change: str = "", values: bool = True) -> dict[str, tuple[int, int, int]]:
    """Of each world the pairs there are, those that are found, and those that are wrong."""
    from mindsummary_lightning.porting.comparison.matching.match import match_names

    result = {}
    for name, world in WORLDS.items():
        found = [
            world.pairs.get(pair.a) == pair.b
            for pair in match_names(*world.sides(change, values)).pairs
        ]
        result[name] = len(world.pairs), sum(found), len(found) - sum(found)
    return result


if __name__ == "__main__":
    for change in ("", "rate", "optimizer", "weights"):
        found = counts(change)
        print(
            change or "the same start",
            [sum(column) for column in zip(*found.values(), strict=True)],
        )
        print("   ", {name: row for name, row in found.items() if row[0] != row[1] or row[2]})
    found = counts(values=False)
    print("without numbers", [sum(column) for column in zip(*found.values(), strict=True)])
    print("   ", {name: row for name, row in found.items() if row[0] != row[1] or row[2]})
