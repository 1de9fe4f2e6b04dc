"""Names and sizes of the parameters of well-known networks, as two frameworks or wrappers call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mindsummary_lightning.comparison.names import TensorName


class World(NamedTuple):
    """A network under two namings; ``pairs`` are the names that belong together, ``alone`` those without a partner."""

    a: list[TensorName]
    b: list[TensorName]
    pairs: dict[str, str]
    alone: set[str]


def _world(
    rows: list[tuple[str, str, int]], alone_a: dict[str, int] | None = None, alone_b: dict[str, int] | None = None
) -> World:
    a = [TensorName(one, size) for one, _, size in rows] + [TensorName(*item) for item in (alone_a or {}).items()]
    b = [TensorName(other, size) for _, other, size in rows] + [TensorName(*item) for item in (alone_b or {}).items()]
    return World(a, b, {one: other for one, other, _ in rows}, {*(alone_a or {}), *(alone_b or {})})


def _norm(one: str, other: str, size: int) -> Iterator[tuple[str, str, int]]:
    yield f"{one}.weight", f"{other}.gamma", size
    yield f"{one}.bias", f"{other}.beta", size


def _dense(one: str, other: str, inputs: int, outputs: int) -> Iterator[tuple[str, str, int]]:
    yield f"{one}.weight", f"{other}.weight", inputs * outputs
    yield f"{one}.bias", f"{other}.bias", outputs


def resnet50() -> World:
    rows = [("conv1.weight", "conv1.weight", 9408), *_norm("bn1", "bn1", 64)]
    width = 64
    for stage, blocks in enumerate((3, 4, 6, 3), 1):
        inner = 64 * 2 ** (stage - 1)
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            for number, (inputs, outputs, kernel) in enumerate(
                ((width, inner, 1), (inner, inner, 9), (inner, 4 * inner, 1)), 1
            ):
                rows.append((f"{name}.conv{number}.weight", f"{name}.conv{number}.weight", inputs * outputs * kernel))
                rows += _norm(f"{name}.bn{number}", f"{name}.bn{number}", outputs)
            if block == 0:
                rows.append((f"{name}.downsample.0.weight", f"{name}.down_sample_layer.0.weight", width * 4 * inner))
                rows += _norm(f"{name}.downsample.1", f"{name}.down_sample_layer.1", 4 * inner)
            width = 4 * inner
    return _world([*rows, *_dense("fc", "end_point", 2048, 1000)])


def bert() -> World:
    rows = [
        ("bert.embeddings.word_embeddings.weight", "bert.bert_embedding_lookup.embedding_table", 30522 * 768),
        (
            "bert.embeddings.position_embeddings.weight",
            "bert.bert_embedding_postprocessor.full_position_embedding.embedding_table",
            512 * 768,
        ),
        (
            "bert.embeddings.token_type_embeddings.weight",
            "bert.bert_embedding_postprocessor.token_type_embedding.embedding_table",
            2 * 768,
        ),
        *_norm("bert.embeddings.LayerNorm", "bert.bert_embedding_postprocessor.layernorm", 768),
    ]
    for layer in range(4):
        one, other = f"bert.encoder.layer.{layer}", f"bert.bert_encoder.layers.{layer}"
        for part in ("query", "key", "value"):
            rows += _dense(f"{one}.attention.self.{part}", f"{other}.attention.attention.{part}_layer", 768, 768)
        rows += _dense(f"{one}.attention.output.dense", f"{other}.attention.output.dense", 768, 768)
        rows += _norm(f"{one}.attention.output.LayerNorm", f"{other}.attention.output.layernorm", 768)
        rows += _dense(f"{one}.intermediate.dense", f"{other}.intermediate", 768, 3072)
        rows += _dense(f"{one}.output.dense", f"{other}.output.dense", 3072, 768)
        rows += _norm(f"{one}.output.LayerNorm", f"{other}.output.layernorm", 768)
    return _world([*rows, *_dense("bert.pooler.dense", "bert.dense", 768, 768)])


def gpt_with_fused_attention() -> World:
    rows = [("transformer.wte.weight", "backbone.word_embedding.embedding_table", 50257 * 64)]
    fused: dict[str, int] = {}
    apart: dict[str, int] = {}
    for layer in range(3):
        one, other = f"transformer.h.{layer}", f"backbone.blocks.{layer}"
        rows += _norm(f"{one}.ln_1", f"{other}.layernorm1", 64)
        fused |= {f"{one}.attn.c_attn.weight": 3 * 64 * 64, f"{one}.attn.c_attn.bias": 3 * 64}
        for part in ("dense1", "dense2", "dense3"):
            apart |= {f"{other}.attention.{part}.weight": 64 * 64, f"{other}.attention.{part}.bias": 64}
    return _world(rows, fused, apart)


def lstm() -> World:
    rows = [("embedding.weight", "embedding.embedding_table", 20000)]
    for layer in range(2):
        rows += [
            (f"rnn.{part}_l{layer}", f"rnn.{part}_l{layer}", size)
            for part, size in (("weight_ih", 16384), ("weight_hh", 16384), ("bias_ih", 256), ("bias_hh", 256))
        ]
    return _world([*rows, *_dense("decoder", "decoder", 64, 10)])


def vgg() -> World:
    rows, width = [], 3
    for index, outputs in ((0, 64), (3, 64), (7, 128), (10, 128), (14, 256)):
        rows += [(f"features.{index}.weight", f"layers.{index}.weight", width * outputs * 9)]
        rows += [(f"features.{index}.bias", f"layers.{index}.bias", outputs)]
        width = outputs
    return _world(
        [*rows, *_dense("classifier.0", "classifier.0", 25088, 4096), *_dense("classifier.6", "classifier.6", 4096, 10)]
    )


def _wrapped(prefix: str, inner: str = "") -> World:
    rows = [
        (f"{prefix}block{index}.{inner}fc.{part}", f"block{index}.fc.{part}", size)
        for index in range(3)
        for part, size in (("weight", 64), ("bias", 8))
    ]
    return _world([*rows, (f"{prefix}norm.weight", "norm.gamma", 8), (f"{prefix}norm.bias", "norm.beta", 8)])


def swapped_projections() -> World:
    """Three projections of one size that the two frameworks hold in another order, told apart by their names alone."""
    rows = [("embedding.weight", "table.embedding_table", 640)]
    for part, other in (("q_proj", "query"), ("k_proj", "key"), ("v_proj", "value")):
        rows += [(f"attn.{part}.weight", f"attention.{other}.weight", 256)]
    world = _world([*rows, ("head.weight", "head.weight", 100)])
    order = [0, 2, 1, 3, 4]
    return World(world.a, [world.b[index] for index in order], world.pairs, set())


WORLDS = {
    "resnet50": resnet50(),
    "bert": bert(),
    "gpt_with_fused_attention": gpt_with_fused_attention(),
    "lstm": lstm(),
    "vgg": vgg(),
    "data_parallel": _wrapped("module."),
    "compiled": _wrapped("_orig_mod."),
    "fsdp": _wrapped("_fsdp_wrapped_module.", "_fsdp_wrapped_module."),
    "lightning_model": _wrapped("model."),
    "mindspore_training_cell": _wrapped("network._backbone."),
    "swapped_projections": swapped_projections(),
}
