"""What people ask the site's search for, and the page that answers: written down before the search was looked at."""

from __future__ import annotations

ENGLISH = {
    "landscape": "landscape",
    "s3": "remote",
    "NaN": "which-layer",
    "compare": "is-my-port-right",
    "resume": "resume",
    "histogram": "collector",
    "lineage": "lineage",
    "hyper-parameters": "logger",
    "tensorboard": "tensorboard",
    "torch.compile": "operators",
    "npu": "accelerators",
    "mindsummary view": "viewer",
    "repair": "command-line",
    "offline": "offline",
    "MindSpore callbacks": "coming-from-mindspore",
    "pandas": "reading",
    "optuna": "recipes",
    "computational graph": "graphs",
    "vanishing gradients": "which-layer",
    "install": "install",
}

CHINESE = {
    "血缘": "zh/lineage",
    "地形": "zh/landscape",
    "溯源": "zh/lineage",
    "损失函数地形图": "zh/landscape",
    "断点续训": "zh/resume",
    "精度对齐": "zh/is-my-port-right",
    "迁移": "zh/coming-from-mindspore",
    "直方图": "zh/collector",
    "计算图": "zh/graphs",
    "超参数": "zh/logger",
    "昇腾": "zh/accelerators",
    "离线": "zh/offline",
    "训练看板": "zh/viewer",
    "修复": "zh/command-line",
    "算子": "zh/operators",
    "对象存储": "zh/remote",
    "梯度消失": "zh/which-layer",
    "安装": "zh/install",
    "读取训练日志": "zh/reading",
    "第一次训练": "zh/first-run",
}
