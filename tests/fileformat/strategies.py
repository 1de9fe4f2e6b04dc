"""Hypothesis strategies for values of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from mindsummary_lightning.values import (
    Attribute,
    DatasetGraph,
    DataType,
    EvaluationInfo,
    Graph,
    GraphConstant,
    GraphInput,
    GraphNode,
    GraphOutput,
    GraphParameter,
    Histogram,
    Image,
    LandscapeMetadata,
    LossLandscape,
    Operation,
    Points,
    RunInfo,
    Tensor,
    TensorType,
    TrainInfo,
    TupleType,
    UserDefinedInfo,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
wall_times = st.floats(0, 4e9)
steps = st.integers(-(2**63), 2**63 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
sizes = st.integers(0, 2**31 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
float32 = st.floats(width=32, allow_nan=False)

scalars = st.floats(width=32)

images = st.builds(
    Image,
    st.integers(1, 9999),
    st.integers(1, 9999),
    st.binary(max_size=40),
    st.sampled_from([1, 3]),
)

numbers = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]
tensors = (
    st.sampled_from(numbers)
    .flatmap(
        lambda dtype: nps.arrays(
            dtype, nps.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
        )
    )
    .filter(
        lambda array: (
            array.dtype.itemsize < 8 or not np.any(np.abs(array.astype(np.float64)) > 1e38)
        )
    )
    .map(Tensor)
)


@st.composite
def histograms(draw: st.DrawFn) -> Histogram:
    n = draw(st.integers(0, 90))
    edges = nps.arrays(np.float64, n, elements=finite)
    return Histogram(
        lefts=draw(edges),
        widths=draw(edges),
        counts=draw(nps.arrays(np.int64, n, elements=st.integers(0, 2**62))),
        count=draw(st.integers(0, 2**62)),
        nan_count=draw(sizes),
        pos_inf_count=draw(sizes),
        neg_inf_count=draw(sizes),
        min=draw(st.none() | finite),
        max=draw(st.none() | finite),
        sum=draw(st.none() | finite),
    )


def _points(*shapes: int | tuple[int, ...]) -> st.SearchStrategy[Points]:
    return st.builds(Points, *(nps.arrays(np.float32, shape, elements=float32) for shape in shapes))


@st.composite
def landscapes(draw: st.DrawFn) -> LossLandscape:
    n, m, k = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(0, 4))
    return LossLandscape(
        surface=draw(_points(n, m, (m, n))),
        intervals=tuple(draw(st.lists(sizes, min_size=k, max_size=k))),
        path=draw(_points(k, k, k)) if k else None,
        convergence_point=draw(st.none() | st.tuples(float32, float32, float32)),
        metadata=draw(st.builds(LandscapeMetadata, texts, texts, sizes)),
    )


summary_values: st.SearchStrategy[Any] = scalars | images | tensors | histograms() | landscapes()

data_types = st.sampled_from(DataType)
tensor_types = st.builds(
    TensorType, data_types, st.lists(st.integers(-1, 2**40), max_size=3).map(tuple)
)
graph_types: st.SearchStrategy[Any] = st.recursive(
    data_types | tensor_types,
    lambda inner: st.builds(TupleType, st.lists(inner, max_size=3).map(tuple)),
    max_leaves=4,
)
attribute_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | finite
    | texts
    | data_types
    | tensor_types,
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple) | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=4,
)
nodes = st.builds(
    GraphNode,
    name=texts,
    op_type=texts,
    scope=texts,
    full_name=texts,
    inputs=st.lists(st.builds(GraphInput, texts, st.booleans()), max_size=2).map(tuple),
    attributes=st.lists(st.builds(Attribute, texts, attribute_values), max_size=2).map(tuple),
    output_type=st.none() | graph_types,
    output_i=st.integers(0, 2**64 - 1),
    instance_name=texts,
)
graphs = st.builds(
    Graph,
    nodes=st.lists(nodes, max_size=3).map(tuple),
    name=texts,
    parameters=st.lists(st.builds(GraphParameter, texts, st.none() | graph_types), max_size=2).map(
        tuple
    ),
    constants=st.lists(st.builds(GraphConstant, texts, attribute_values), max_size=2).map(tuple),
    outputs=st.lists(st.builds(GraphOutput, texts, st.none() | graph_types), max_size=2).map(tuple),
)

_text = st.none() | texts
_size = st.none() | sizes
train_lineages = st.builds(
    TrainInfo,
    optimizer=_text,
    learning_rate=st.none() | float32,
    loss_function=_text,
    epoch=_size,
    parallel_mode=_text,
    device_num=_size,
    batch_size=_size,
    train_dataset_path=_text,
    train_dataset_size=_size,
    network=_text,
    loss=st.none() | float32,
    model_path=_text,
    model_size=st.none() | st.integers(0, 2**63 - 1),
)
evaluation_lineages = st.builds(EvaluationInfo, _text, _text, _size)
custom_values: st.SearchStrategy[Any] = st.recursive(
    int32 | st.integers(-(2**70), 2**70) | finite | texts,
    lambda inner: st.dictionaries(texts, inner, min_size=1, max_size=3),
    max_leaves=4,
)
custom_lineages = st.builds(UserDefinedInfo, st.dictionaries(texts, custom_values, max_size=4))
parameters = st.dictionaries(
    texts,
    st.booleans() | int32 | finite | texts | st.lists(texts, max_size=3).map(tuple),
    max_size=3,
)
operations = st.builds(
    Operation,
    parameters,
    st.lists(int32, max_size=3).map(tuple),
    st.lists(float32, max_size=3).map(tuple),
)
dataset_graphs: st.SearchStrategy[Any] = st.recursive(
    st.builds(
        DatasetGraph,
        parameters,
        st.lists(operations, max_size=2).map(tuple),
        st.none() | operations,
    ),
    lambda inner: st.builds(
        DatasetGraph,
        parameters,
        st.just(()),
        st.none(),
        st.lists(inner, min_size=1, max_size=2).map(tuple),
    ),
    max_leaves=3,
)
run_infos = custom_lineages.map(lambda custom: RunInfo(custom.values))
lineage_values: st.SearchStrategy[Any] = (
    train_lineages | evaluation_lineages | custom_lineages | run_infos | dataset_graphs
)
