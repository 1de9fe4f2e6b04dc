"""Weights are transferred as far as they fit, and what does not is named."""

from __future__ import annotations

import numpy as np
import pytest

from mindsummary_lightning import transfer_weights


def test_a_bias_that_one_framework_alone_has_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    weights = {
        "conv.weight": np.ones((2, 1, 3, 3)),
        "conv.bias": np.ones(2),
        "norm.gamma": np.full(2, 2.0),
    }
    like = {"conv.weight": np.zeros((2, 1, 3, 3)), "norm.weight": np.zeros(2)}

    transferred = transfer_weights(weights, like)

    assert [*transferred] == ["conv.weight", "norm.weight"]
    assert transferred["norm.weight"].tolist() == [2.0, 2.0]
    assert "missing in like: 1: conv.bias" in caplog.text


def test_query_key_and_value_are_joined() -> None:
    parts = {f"attn.{name}.weight": np.full((2, 2), at) for at, name in enumerate("qkv")}

    transferred = transfer_weights(
        {**parts, "attn.out.weight": np.full((2, 2), 7)},
        {"attn.qkv.weight": np.zeros((6, 2)), "attn.out.weight": np.zeros((2, 2))},
    )

    assert transferred["attn.qkv.weight"][:, 0].tolist() == [0, 0, 1, 1, 2, 2]


def test_parameters_of_mindspore_are_taken_as_they_are() -> None:
    class Parameter:
        shape = (2,)

        def asnumpy(self) -> np.ndarray:
            return np.array([1.0, 2.0])

    assert transfer_weights({"bn.gamma": Parameter()}, {"bn.weight": np.zeros(2)})[
        "bn.weight"
    ].tolist() == [1, 2]


def test_what_is_said_of_many_weights_is_short(caplog: pytest.LogCaptureFixture) -> None:
    weights = {f"a.{layer}.q.weight": np.ones((layer + 1, 3)) for layer in range(300)}
    like = {f"b.{layer}.k.weight": np.ones((layer + 1, 7)) for layer in range(300)}

    transfer_weights(weights, like)

    assert len(caplog.messages[0].splitlines()) <= 10


def test_a_list_is_refused() -> None:
    with pytest.raises(
        TypeError, match="must be dicts of arrays by their names, got list and dict"
    ):
        transfer_weights([1], {})  # type: ignore[arg-type]
