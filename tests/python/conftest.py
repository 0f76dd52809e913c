"""Fixtures: the device, the fallback guard, a script runner, a shared daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence

import pytest
import support
import torch
from support import DEVICE, Daemon, Zygote, assert_same, to_device

import torch_tvarant

__all__ = ["DEVICE", "assert_same", "to_device"]


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


@pytest.fixture
def compare() -> Callable[..., None]:
    """compare(function, *cpu_arguments): same result on device and CPU."""
    return support.compare


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    running = Zygote()
    yield running
    running.stop()


@pytest.fixture
def script(zygote: Zygote) -> Callable[..., subprocess.CompletedProcess]:
    """Runs Python code in a process of its own, with a time limit.

    It is forked from one that has imported torch and not used the device.
    """
    return zygote.run


@pytest.fixture
def fresh_script() -> Callable[..., subprocess.CompletedProcess]:
    """As `script`, in an interpreter that imports torch itself: slow."""

    def run(
        code: str,
        timeout: float = 60,
        env: dict[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *options, "-c", code],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **(env or {})},
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """A daemon that the clients of a module share; it must end cleanly."""
    running = Daemon("--memory=2GiB")
    yield running
    alive = running.process.poll() is None
    status = running.stop()
    assert alive, f"the daemon ended by itself with status {status}"
    assert status == 0
