"""Random graphs as MindSpore could write them: all that the graph page treats specially, in any
mixture.

They are GraphProto messages rather than values of this package, so that they hold what only another
writer leaves: 32-bit numbers, tensors as constants, types that are missing, names without a full
name.
"""

from __future__ import annotations

import random

from mindsummary_lightning.fileformat._proto import anf_ir_pb2

OPERATIONS = ("Add", "MatMul", "ReLU", "Conv2D", "Mul", "Cast")
BOOKKEEPING = ("Load", "MakeTuple", "TupleGetItem", "UpdateState")
PARTS = (
    "network",
    "layer-Net",
    "conv",
    "ReLU",
    "Add",
    "backbone",
    "cell_1",
    "optimizer-Momentum",
    "blöck",
)
ROOTS = ("Default", "Default", "Default", "Gradients", "recompute_Default")
TENSORS = (anf_ir_pb2.DT_FLOAT32, anf_ir_pb2.DT_FLOAT16, anf_ir_pb2.DT_INT32, anf_ir_pb2.DT_BOOL)
SIZES = (1, 3, 32, 64, 64, 128, -1, -2)
PLAIN = (
    anf_ir_pb2.DT_INT64,
    anf_ir_pb2.DT_STRING,
    anf_ir_pb2.DT_NONE,
    anf_ir_pb2.DT_UNDEFINED,
    anf_ir_pb2.DT_TYPE,
)


def random_graph(seed: int) -> anf_ir_pb2.GraphProto:
    """A graph of up to some hundred nodes; sources come before their consumers."""
    chance = random.Random(seed)
    graph = anf_ir_pb2.GraphProto(name="kernel_graph_0")
    scopes = [_scope(chance) for _ in range(chance.randint(1, 8))]
    for number in range(chance.choice((0, 3, 12))):
        parameter = graph.parameters.add(name=f"layer{number}.weight")
        if chance.random() < 0.95:
            _fill_type(chance, parameter.type)
    for number in range(chance.choice((0, 2, 6))):
        entry = graph.const_vals.add(key=f"cst{number}")
        _fill_value(chance, entry.value)
    sources = [entry.name for entry in graph.parameters] + [entry.key for entry in graph.const_vals]
    has_bookkeeping = chance.random() < 0.6
    kinds = chance.sample(OPERATIONS, chance.randint(1, len(OPERATIONS)))
    for number in range(1, chance.choice((1, 4, 15, 60, 200)) + 1):
        node = graph.node.add(name=f"{number}")
        is_bookkeeping = has_bookkeeping and chance.random() < 0.25
        node.op_type = chance.choice(BOOKKEEPING if is_bookkeeping else kinds)
        node.scope = chance.choice(scopes) if chance.random() < 0.97 else ""
        _name(chance, node)
        _fill_inputs(chance, node, sources)
        for name in chance.sample(
            ("dtype", "transpose_a", "pad", "IsFeatureMapInputList"), chance.randint(0, 3)
        ):
            _fill_value(chance, node.attribute.add(name=name).value)
        if chance.random() < 0.03:
            value = node.attribute.add(
                name=chance.choice(("input_is_dynamic_shape", "output_is_dynamic_shape"))
            ).value
            value.dtype, value.bool_val = anf_ir_pb2.DT_BOOL, chance.random() < 0.7
        if chance.random() < 0.95:
            _fill_type(chance, node.output_type)
        node.output_i = chance.choice((0, 0, 0, 1, 3))
        sources.append(node.name.rpartition("op")[2])
    return graph


def _scope(chance: random.Random) -> str:
    return "/".join(
        [chance.choice(ROOTS), *(chance.choice(PARTS) for _ in range(chance.randint(0, 4)))]
    )


def _name(chance: random.Random, node: anf_ir_pb2.NodeProto) -> None:
    number = node.name
    way = chance.random()
    if way < 0.7:
        node.full_name = f"{node.scope}/{node.op_type}-op{number}".lstrip("/")
    elif way < 0.75:
        node.full_name = (
            f"{node.scope}/tag{number}[:{chance.choice(('Scalar', 'Image', 'Tensor'))}]".lstrip("/")
        )
    if chance.random() < 0.1:
        node.name = f"{node.scope}/{node.op_type}-op{number}"
    if chance.random() < 0.05:
        node.instance_name = chance.choice(("Adam_opt", "relu"))


def _fill_inputs(chance: random.Random, node: anf_ir_pb2.NodeProto, sources: list[str]) -> None:
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        way = chance.random()
        if sources and way < 0.95:
            near = sources[-chance.choice((3, 10, len(sources))) :]
            name = chance.choice(near)
            entry = node.input.add(
                name=f"Default/x/Add-op{name}"
                if chance.random() < 0.05 and name.isdigit()
                else name
            )
        else:
            entry = node.input.add(name=chance.choice(("unknown", "", "99999")))
        if chance.random() < 0.15:
            entry.type = anf_ir_pb2.InputProto.CONTROL_EDGE


def _fill_type(chance: random.Random, message: anf_ir_pb2.TypeProto, depth: int = 0) -> None:
    way = chance.random()
    if way < 0.7:
        message.data_type = anf_ir_pb2.DT_TENSOR
        message.tensor_type.elem_type = chance.choice(TENSORS)
        for _ in range(chance.randint(0, 4)):
            message.tensor_type.shape.dim.add(
                size=chance.choice((1, 3, 32, 64, 64, 128, -1, -2)[: chance.choice((6, 6, 8))])
            )
        message.tensor_type.shape.SetInParent()
    elif way < 0.85 and depth < 3:
        message.data_type = chance.choice(
            (anf_ir_pb2.DT_TUPLE, anf_ir_pb2.DT_TUPLE, anf_ir_pb2.DT_LIST)
        )
        message.sequence_type.SetInParent()
        for _ in range(chance.randint(0, 3)):
            _fill_type(chance, message.sequence_type.elem_types.add(), depth + 1)
    elif way < 0.9:
        message.data_type = chance.choice((anf_ir_pb2.DT_TENSOR, anf_ir_pb2.DT_TUPLE))
    else:
        message.data_type = chance.choice(PLAIN)


def _fill_value(chance: random.Random, value: anf_ir_pb2.ValueProto, depth: int = 0) -> None:
    kind = chance.choice(
        (
            "bool",
            "int",
            "uint",
            "float",
            "double",
            "text",
            "ints",
            "tuple",
            "dict",
            "type",
            "tensor",
        )
    )
    if kind == "bool":
        value.dtype, value.bool_val = anf_ir_pb2.DT_BOOL, chance.random() < 0.5
    elif kind == "int":
        value.dtype, value.int_val = (
            chance.choice((anf_ir_pb2.DT_INT32, anf_ir_pb2.DT_INT64)),
            chance.randint(-9, 9),
        )
    elif kind == "uint":
        value.dtype, value.uint_val = anf_ir_pb2.DT_UINT8, chance.randint(0, 255)
    elif kind == "float":
        value.dtype = anf_ir_pb2.DT_FLOAT32
        value.float_val = chance.choice((0.1, -1.5, 1e-8, 3.4e38, float("inf"), chance.random()))
    elif kind == "double":
        value.dtype, value.double_val = (
            anf_ir_pb2.DT_FLOAT64,
            chance.choice((0.1, 1e300, chance.random())),
        )
    elif kind == "text":
        value.dtype = anf_ir_pb2.DT_STRING
        value.str_val = chance.choice(("NCHW", 'quoted "x"\n', "größe", "tab\t\\", "", "x" * 2000))
    elif kind == "ints":
        value.dtype = anf_ir_pb2.DT_INTS64
        value.int_vals.extend(chance.randint(0, 5) for _ in range(chance.randint(0, 4)))
    elif kind == "type":
        value.dtype = anf_ir_pb2.DT_TYPE
        _fill_type(chance, value.type_val)
    elif kind == "tensor":
        value.dtype = anf_ir_pb2.DT_TENSOR
        if chance.random() < 0.8:
            size = chance.choice((2, 2, 600))
            value.tensor_val.dims.append(size)
            value.tensor_val.data_type = anf_ir_pb2.DT_FLOAT32
            value.tensor_val.float_data.extend(0.5 for _ in range(size))
    elif depth < 2 and kind == "tuple":
        value.dtype = anf_ir_pb2.DT_TUPLE
        for _ in range(chance.randint(0, 3)):
            _fill_value(chance, value.values.add(), depth + 1)
    elif depth < 2:
        value.dtype = anf_ir_pb2.DT_DICT
        _fill_value(chance, value.dict_val.add(key="k").value, depth + 1)
