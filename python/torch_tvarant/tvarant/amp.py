"""Automatic mixed precision: which types autocast may choose."""

from __future__ import annotations

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that ``torch.autocast("tvarant", dtype=...)`` accepts."""
    return [torch.bfloat16, torch.float16]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """bfloat16 works everywhere: it is stored so and computed in float32."""
    return True


def is_autocast_enabled() -> bool:
    """Whether autocast is on for the device in this thread."""
    return torch.is_autocast_enabled("tvarant")


def set_autocast_enabled(enabled: bool) -> None:
    """Switches autocast for the device in this thread."""
    torch.set_autocast_enabled("tvarant", enabled)


def get_autocast_dtype() -> torch.dtype:
    """Type that autocast lowers to."""
    return torch.get_autocast_dtype("tvarant")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Sets the type that autocast lowers to."""
    torch.set_autocast_dtype("tvarant", dtype)
