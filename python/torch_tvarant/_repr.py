"""Prints a device tensor after one transfer.

PyTorch formats a tensor with dozens of small ops on its device; here what is
shown is copied to the host first and formatted there.
"""

from __future__ import annotations

import itertools

import torch
import torch._tensor_str as _tensor_str_module

_original = _tensor_str_module._tensor_str
_WHOLE_COPY_BYTES = 1 << 20


def _to_host(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor on the CPU; of a large one only the corners that are shown."""
    options = _tensor_str_module.PRINT_OPTS
    small = tensor.numel() * tensor.element_size() <= _WHOLE_COPY_BYTES
    if small or tensor.numel() <= options.threshold:
        return tensor.cpu()
    edge = options.edgeitems
    # Pages that are never written take no memory.
    host = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    parts = [
        (slice(0, edge), slice(size - edge, size))
        if size > 2 * edge
        else (slice(0, size),)
        for size in tensor.shape
    ]
    for corner in itertools.product(*parts):
        host[corner] = tensor[corner].cpu()
    return host


def _tensor_str(self: torch.Tensor, indent: int) -> str:
    if self.device.type == "tvarant":
        self = _to_host(self.detach())
    return _original(self, indent)


def install() -> None:
    _tensor_str_module._tensor_str = _tensor_str
