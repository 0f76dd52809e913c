"""Memory of the device: what this process holds, and what is free."""

from __future__ import annotations

import collections
from typing import Any

from torch_tvarant import _C
from torch_tvarant._utils import Device, _get_device_index


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) bytes of the device, all processes counted. Connects."""
    return _C.mem_get_info(_get_device_index(device))


def memory_stats(device: Device = None) -> dict[str, Any]:
    """The allocator's statistics, with the keys of ``torch.cuda.memory_stats``.

    Empty before the first use of the device.
    """
    return collections.OrderedDict(
        sorted(_C.memory_stats(_get_device_index(device)).items())
    )


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """`memory_stats` with the dots of the keys as levels."""
    nested: dict[str, Any] = {}
    for key, value in memory_stats(device).items():
        *parents, leaf = key.split(".")
        level = nested
        for parent in parents:
            level = level.setdefault(parent, {})
        level[leaf] = value
    return nested


def _stat(key: str, device: Device) -> int:
    return memory_stats(device).get(key, 0)


def memory_allocated(device: Device = None) -> int:
    """Bytes in living tensors of this process."""
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device: Device = None) -> int:
    """Most bytes in living tensors since the start or the last reset."""
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device: Device = None) -> int:
    """Bytes that the caching allocator holds."""
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device: Device = None) -> int:
    """Most bytes that the caching allocator held since the last reset."""
    return _stat("reserved_bytes.all.peak", device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Makes the current figures the peaks."""
    _C.reset_peak_memory_stats(_get_device_index(device))


def reset_max_memory_allocated(device: Device = None) -> None:
    """As `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the sums of allocations and frees back to 0."""
    _C.reset_accumulated_memory_stats(_get_device_index(device))


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the daemon."""
    _C.empty_cache()


def memory_snapshot(device: Device = None) -> list[dict[str, Any]]:
    """Segments of the allocator and the blocks in each."""
    return _C.memory_snapshot(_get_device_index(device))


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of the statistics, for people."""
    index = _get_device_index(device)
    stats = memory_stats(index)

    def size(key: str) -> str:
        value = float(stats.get(key, 0))
        for unit in ("B", "KiB", "MiB", "GiB"):
            if value < 1024 or unit == "GiB":
                return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
            value /= 1024
        raise AssertionError("unreachable")

    def count(key: str) -> str:
        return str(stats.get(key, 0))

    rows = [
        ("Allocated memory", "allocated_bytes", size),
        ("Active memory", "active_bytes", size),
        ("Reserved memory", "reserved_bytes", size),
        ("Allocations", "allocation", count),
        ("Segments", "segment", count),
    ]
    pools = ["all"] if abbreviated else ["all", "large_pool", "small_pool"]
    columns = ("current", "peak", "allocated", "freed")
    lines = [
        f"tvarant memory summary, device {index}",
        f"out of memory errors: {stats.get('num_ooms', 0)}, "
        f"retries: {stats.get('num_alloc_retries', 0)}",
        f"{'':<28}" + "".join(f"{name:>14}" for name in columns),
    ]
    for title, key, show in rows:
        for pool in pools:
            label = title if pool == "all" else f"  {pool.replace('_', ' ')}"
            values = (show(f"{key}.{pool}.{column}") for column in columns)
            lines.append(f"{label:<28}" + "".join(f"{v:>14}" for v in values))
    return "\n".join(lines) + "\n"
