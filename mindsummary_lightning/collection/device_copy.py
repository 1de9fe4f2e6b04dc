"""Copies tensors from a device to the CPU without waiting for the device.

A device without pinned memory or events, or without memory for the buffer, gets plain copies, which
wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from mindsummary_lightning.warn_once import WarnOnce

_LOG = logging.getLogger(__name__)
_WARN_ONCE = WarnOnce(_LOG)  # per process: the abilities of a device do not change


class DeviceCopy:
    """An asynchronous copy of strided tensors from one device to the CPU.

    The copy runs after the work that is queued on its current stream.

    Do not change the tensors; they are not referenced once the copy is queued. If not even a
    plain copy is possible, what the device raises passes.
    """

    def __init__(self, parts: Sequence[torch.Tensor]) -> None:
        self._layout = [
            (part.dtype, part.shape, part.numel() * part.element_size()) for part in parts
        ]
        # Largest elements first, so that each part is aligned for its dtype without padding.
        self._order = sorted(range(len(parts)), key=lambda index: -parts[index].element_size())
        self._event: Any = None
        self._arrived: list[torch.Tensor] | None = None
        ordered = [parts[index].reshape(-1).view(torch.uint8) for index in self._order]
        try:
            self._buffers = [self._queue(torch.cat(ordered))]
        except Exception as error:
            device = parts[0].device.type
            _WARN_ONCE.warn(
                (device, type(error)),
                "the device %s cannot copy several collected values at once, so they are copied "
                "one by one, which waits for the device (%s)",
                device,
                error,
                level=logging.INFO,
            )
            self._event = None
            self._buffers = [part.cpu() for part in ordered]

    def is_done(self) -> bool:
        """Tell whether the copy has finished, so that :meth:`wait` returns immediately."""
        return self._event is None or bool(self._event.query())

    def wait(self) -> list[torch.Tensor]:
        """Wait until the copy has finished, and return the CPU tensors in their order.

        Work that was queued after the copy is not waited for.
        """
        if self._arrived is not None:
            return self._arrived
        if self._event is not None:
            self._event.synchronize()
        whole = self._buffers[0] if len(self._buffers) == 1 else torch.cat(self._buffers)
        arrived = {}
        start = 0
        for index in self._order:
            dtype, shape, size = self._layout[index]
            arrived[index] = whole[start : start + size].view(dtype).reshape(shape)
            start += size
        self._arrived, self._buffers = [arrived[index] for index in range(len(self._layout))], []
        return self._arrived

    def _queue(self, buffer: torch.Tensor) -> torch.Tensor:
        if buffer.device.type == "cpu":
            return buffer
        module = torch.get_device_module(buffer.device)
        event = module.Event()
        copied = buffer.to("cpu", non_blocking=True)
        if hasattr(module, "current_stream"):
            # The stream that copies is the device's own; without an argument it would be that of
            # the current device.
            event.record(module.current_stream(buffer.device))
        else:  # Apple's GPU has one stream
            event.record()
        self._event = event
        return copied
