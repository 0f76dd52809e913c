"""Shared set-up: the device, comparison with the CPU, script runner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import torch_tvarant

DEVICE = torch.device("tvarant", 0)


@pytest.fixture
def dev() -> torch.device:
    return DEVICE


@pytest.fixture
def no_fallback() -> Iterator[None]:
    """Fails the test if any op ran on the CPU."""
    torch_tvarant.tvarant.reset_fallback_stats()
    yield
    stats = torch_tvarant.tvarant.fallback_stats()
    assert not stats, f"ops fell back to the CPU: {stats}"


def to_device(value: Any) -> Any:
    """Tensors in a nest of lists, tuples and dicts, moved to the device."""
    return torch.utils._pytree.tree_map(
        lambda x: x.to(DEVICE) if isinstance(x, torch.Tensor) else x, value
    )


def assert_same(actual: Any, expected: Any, **tolerance: Any) -> None:
    """Same values, dtype and strides as the CPU's result, and on the device."""
    flat_actual = torch.utils._pytree.tree_leaves(actual)
    flat_expected = torch.utils._pytree.tree_leaves(expected)
    assert len(flat_actual) == len(flat_expected)
    for ours, theirs in zip(flat_actual, flat_expected, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert ours.device.type == "tvarant"
            torch.testing.assert_close(
                ours.cpu(), theirs, equal_nan=True, check_stride=True, **tolerance
            )
        else:
            assert ours == theirs


@pytest.fixture
def compare() -> Callable[..., None]:
    """compare(function, *cpu_arguments): same result on device and CPU."""

    def run(function: Callable[..., Any], *args: Any, **tolerance: Any) -> None:
        expected = function(*args)
        assert_same(function(*to_device(args)), expected, **tolerance)

    return run


@pytest.fixture
def script() -> Callable[..., subprocess.CompletedProcess]:
    """Runs Python code in a process of its own, with a time limit."""

    def run(
        code: str, timeout: float = 60, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **(env or {})},
            check=False,
        )

    return run
