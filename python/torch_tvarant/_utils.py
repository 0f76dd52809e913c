"""Turns what users pass as a device into an index."""

from __future__ import annotations

from typing import Any

import torch

Device = torch.device | str | int | None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False):
    """Index of a tvarant device given as device, string, int or None.

    None, and a device without index, mean the current one. `optional` is
    accepted for PyTorch's callers; None is always allowed here. With
    `allow_cpu`, a CPU device gives -1. Any other device is a ValueError.
    """
    from torch_tvarant import _C

    if isinstance(device, bool):
        raise TypeError("a tvarant device is not a bool")
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if device is None:
        return _C.current_device()
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "tvarant":
            raise ValueError(f"Expected a tvarant device, but got: {device}")
        return _C.current_device() if device.index is None else device.index
    if hasattr(device, "idx"):  # torch.tvarant.device(...) itself
        return device.idx
    raise TypeError(
        f"Expected a torch.device, string or int for a tvarant device, got "
        f"{type(device).__name__}"
    )
