"""Device tensors between processes: through queues, pipes and pools as copies.

Each process has its own session with the daemon, whose memory no other session
can reach. So what arrives is a copy with the same values, strides and device;
neither process sees what the other writes afterwards. The bytes travel with the
message, so the sender may end before they are read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

_Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def _rebuild(
    cls: type[torch.Tensor],
    data: bytes,
    dtype: torch.dtype,
    size: torch.Size,
    stride: tuple[int, ...],
    device: torch.device,
    requires_grad: bool,
) -> torch.Tensor:
    made = torch.empty_strided(size, stride, dtype=dtype, device=device)
    if data:
        # A bytearray, for PyTorch warns of memory that may not be written.
        host = torch.frombuffer(bytearray(data), dtype=dtype)
        made.copy_(host.view(size))
    if cls is torch.nn.Parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)


def _reduce(tensor: torch.Tensor) -> _Reduced:
    if tensor.device.type != "tvarant" or tensor.layout != torch.strided:
        return reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "tvarant: a tensor with a history of autograd can't be sent to another "
            "process; detach() it first"
        )
    torch.utils.hooks.warn_if_has_hooks(tensor)
    value = tensor.detach().resolve_conj().resolve_neg()
    host = value.cpu().contiguous()
    # Strides with gaps or overlaps belong to the tensor that this is a view of.
    dense = torch.empty_like(value, device="meta")
    return (
        _rebuild,
        (
            type(tensor),
            ctypes.string_at(host.data_ptr(), host.nbytes) if host.nbytes else b"",
            tensor.dtype,
            tensor.size(),
            dense.stride(),
            tensor.device,
            tensor.requires_grad,
        ),
    )


def install() -> None:
    """For PyTorch's tensors of the device; all others go as before."""
    for cls in (torch.Tensor, torch.nn.Parameter):
        ForkingPickler.register(cls, _reduce)
