"""The device module ``torch.tvarant``: what ``torch.cuda`` is to a GPU.

Functions that take ``device`` accept a ``torch.device``, a string, an index or
None (the current device). Nothing here connects to a daemon except what needs
the device itself: ``init``, ``synchronize``, ``get_device_properties``,
``get_device_name``, ``mem_get_info``, creating streams.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

import torch

from torch_tvarant import _C
from torch_tvarant import _utils as _utils
from torch_tvarant._utils import Device, _get_device_index
from torch_tvarant.tvarant.amp import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    is_bf16_supported,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_tvarant.tvarant.memory import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_peak_memory_stats,
)
from torch_tvarant.tvarant.random import (
    default_generators,
    fork_rng,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_tvarant.tvarant.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
)


class DeviceProperties(NamedTuple):
    """What is known of a device. Sizes in bytes."""

    name: str
    runtime: str  # "sim" or "opencl"
    vendor: str
    driver_version: str
    instruction_set: str  # "avx2"; "OpenCL 3.0 ...": what kernels are built for
    daemon_version: str
    total_memory: int
    max_segment: int
    compute_units: int
    simt_width: int
    endpoint: str
    mapped: bool  # the simulator's memory is mapped into this process

    @property
    def multi_processor_count(self) -> int:
        """CUDA's name for the number of compute units."""
        return self.compute_units


def is_available() -> bool:
    """Whether a device can be had. Never raises, never connects."""
    return _C.is_available()


def is_initialized() -> bool:
    """Whether this process has connected to a daemon."""
    return _C.is_initialized()


def _is_compiled() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return _C.in_bad_fork()


def init() -> None:
    """Connects now instead of at the first use. RuntimeError if it fails."""
    _C.init()


def _lazy_init() -> None:
    # Called by PyTorch before any factory; the C++ side connects by itself.
    if _C.in_bad_fork():
        _C.init()  # raises the error that names the cure


def device_count() -> int:
    """Number of devices. Never connects."""
    return _C.device_count()


def current_device() -> int:
    """Index of this thread's current device."""
    return _C.current_device()


def set_device(device: Device) -> None:
    """Makes `device` this thread's current device; a negative index does nothing."""
    index = _get_device_index(device)
    if index >= 0:
        _C.set_device(index)


def synchronize(device: Device = None) -> None:
    """Waits for all work of a device. Raises what failed there, once."""
    _C.synchronize(_get_device_index(device))


def backend() -> str:
    """Runtime behind the device: "sim" or "opencl"."""
    return _C.backend()


def get_device_properties(device: Device = None) -> DeviceProperties:
    """Properties of a device. Connects."""
    return DeviceProperties(**_C.device_properties(_get_device_index(device)))


def get_device_name(device: Device = None) -> str:
    """Name of a device. Connects."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """(compute units, SIMT width): there are no numbered capabilities."""
    properties = get_device_properties(device)
    return properties.compute_units, properties.simt_width


def get_arch_list() -> list[str]:
    """Runtimes that this build can use."""
    return ["sim", "opencl"]


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether one device reads the other's memory."""
    return _get_device_index(device) == _get_device_index(peer_device)


def ipc_collect() -> None:
    """Frees memory shared with ended processes: there is none."""


def fallback_stats() -> dict[str, int]:
    """Ops that ran on the CPU since the start or the last reset, with counts."""
    return _C.fallback_stats()


def reset_fallback_stats() -> None:
    """Forgets the counts of `fallback_stats`."""
    _C.reset_fallback_stats()


def counters() -> dict[str, int]:
    """What this process sent: launches, records, batches, bytes, round trips."""
    return _C.counters()


class device:
    """Context manager that makes a device current.

    Example::

        with torch.tvarant.device(0):
            ...
    """

    def __init__(self, device: Any) -> None:
        self.idx = _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _C.exchange_device(self.idx) if self.idx >= 0 else -1

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.prev_idx >= 0:
            _C.exchange_device(self.prev_idx)


class device_of(device):
    """Context manager that makes the device of a tensor current."""

    def __init__(self, obj: torch.Tensor) -> None:
        super().__init__(obj.device.index if obj.is_tvarant else -1)


def _exchange_device(device: int) -> int:
    return _C.exchange_device(device) if device >= 0 else -1


def _maybe_exchange_device(device: int) -> int:
    return _exchange_device(device)


def __getattr__(name: str) -> Any:
    # torch.utils.checkpoint keeps the random state only of a device whose module
    # says so by this name.
    if name == "_initialized":
        return _C.is_initialized()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "DeviceProperties",
    "Event",
    "Stream",
    "StreamContext",
    "backend",
    "can_device_access_peer",
    "counters",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "fallback_stats",
    "fork_rng",
    "get_amp_supported_dtype",
    "get_arch_list",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_fallback_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
]
