"""Message classes of the ``tensorboard`` package, imported only when something is converted."""

from __future__ import annotations

from types import SimpleNamespace


def messages() -> SimpleNamespace:
    """The message classes and tensor functions that export and import need.

    Raises:
        ImportError: the ``tensorboard`` package is missing.
    """
    try:
        from google.protobuf.message import DecodeError
        from tensorboard.compat.proto import event_pb2, graph_pb2, summary_pb2
        from tensorboard.plugins.hparams import plugin_data_pb2
        from tensorboard.util import tensor_util
    except ImportError as error:
        raise ImportError("TensorBoard is missing: pip install 'mindsummary-lightning[tensorboard]'") from error
    return SimpleNamespace(
        DecodeError=DecodeError,
        Event=event_pb2.Event,
        GraphDef=graph_pb2.GraphDef,
        Summary=summary_pb2.Summary,
        HistogramProto=summary_pb2.HistogramProto,
        HParams=plugin_data_pb2.HParamsPluginData,
        make_tensor_proto=tensor_util.make_tensor_proto,
        make_ndarray=tensor_util.make_ndarray,
    )
