"""Operation names that PyTorch users know, for what torch.export and torch functions call otherwise."""

from __future__ import annotations

__all__ = ["familiar_name"]

# ATen or functional name -> class in torch.nn that users know the operation by.
_MODULE_NAMES = {
    "adaptive_avg_pool1d": "AdaptiveAvgPool1d",
    "adaptive_avg_pool2d": "AdaptiveAvgPool2d",
    "adaptive_avg_pool3d": "AdaptiveAvgPool3d",
    "adaptive_max_pool1d": "AdaptiveMaxPool1d",
    "adaptive_max_pool2d": "AdaptiveMaxPool2d",
    "adaptive_max_pool3d": "AdaptiveMaxPool3d",
    "alpha_dropout": "AlphaDropout",
    "avg_pool1d": "AvgPool1d",
    "avg_pool2d": "AvgPool2d",
    "avg_pool3d": "AvgPool3d",
    "batch_norm": "BatchNorm",
    "binary_cross_entropy": "BCELoss",
    "binary_cross_entropy_with_logits": "BCEWithLogitsLoss",
    "celu": "CELU",
    "conv1d": "Conv1d",
    "conv2d": "Conv2d",
    "conv3d": "Conv3d",
    "conv_transpose1d": "ConvTranspose1d",
    "conv_transpose2d": "ConvTranspose2d",
    "conv_transpose3d": "ConvTranspose3d",
    "cosine_similarity": "CosineSimilarity",
    "cross_entropy": "CrossEntropyLoss",
    "cross_entropy_loss": "CrossEntropyLoss",
    "dropout": "Dropout",
    "elu": "ELU",
    "embedding": "Embedding",
    "embedding_bag": "EmbeddingBag",
    "feature_dropout": "Dropout",
    "gelu": "GELU",
    "glu": "GLU",
    "group_norm": "GroupNorm",
    "gru": "GRU",
    "gru_cell": "GRUCell",
    "hardsigmoid": "Hardsigmoid",
    "hardswish": "Hardswish",
    "hardtanh": "Hardtanh",
    "huber_loss": "HuberLoss",
    "instance_norm": "InstanceNorm",
    "kl_div": "KLDivLoss",
    "l1_loss": "L1Loss",
    "layer_norm": "LayerNorm",
    "leaky_relu": "LeakyReLU",
    "linear": "Linear",
    "log_sigmoid": "LogSigmoid",
    "log_softmax": "LogSoftmax",
    "lstm": "LSTM",
    "lstm_cell": "LSTMCell",
    "max_pool1d": "MaxPool1d",
    "max_pool2d": "MaxPool2d",
    "max_pool3d": "MaxPool3d",
    "mish": "Mish",
    "mse_loss": "MSELoss",
    "nll_loss": "NLLLoss",
    "nll_loss_nd": "NLLLoss",
    "pixel_shuffle": "PixelShuffle",
    "prelu": "PReLU",
    "relu": "ReLU",
    "relu6": "ReLU6",
    "rms_norm": "RMSNorm",
    "rnn_relu": "RNN",
    "rnn_tanh": "RNN",
    "rrelu": "RReLU",
    "selu": "SELU",
    "sigmoid": "Sigmoid",
    "silu": "SiLU",
    "smooth_l1_loss": "SmoothL1Loss",
    "softmax": "Softmax",
    "softplus": "Softplus",
    "tanh": "Tanh",
    "threshold": "Threshold",
    "upsample_bicubic2d": "Upsample",
    "upsample_bilinear2d": "Upsample",
    "upsample_linear1d": "Upsample",
    "upsample_nearest1d": "Upsample",
    "upsample_nearest2d": "Upsample",
    "upsample_nearest3d": "Upsample",
    "upsample_trilinear3d": "Upsample",
}


def familiar_name(function_name: str, module_class: str | None) -> str:
    """The operation type shown for a function.

    Args:
        function_name: bare name of a function (``conv2d``, ``relu_``, ``__getitem__``).
        module_class: class of the torch.nn module that calls it, if one does.

    Returns:
        ``Conv2d`` for ``conv2d``, and the module's own class where it names a variant (``BatchNorm2d`` for
        ``batch_norm``); the function's name where users know it by that (``matmul``, ``cat``, ``add_``).
    """
    known = _MODULE_NAMES.get(function_name) or _MODULE_NAMES.get(function_name.rstrip("_"))
    if known is None:
        return function_name.strip("_") if function_name.startswith("_") else function_name or "op"
    return module_class if module_class is not None and module_class.startswith(known) else known
