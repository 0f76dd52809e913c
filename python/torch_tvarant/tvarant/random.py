"""Random numbers of the device: one Philox generator per device.

The state lives in this process, so none of this waits for the daemon. The same
seed gives the same numbers on every runtime, in every process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from typing import Any

import torch

from torch_tvarant import _C
from torch_tvarant._utils import Device, _get_device_index


def _unsigned(seed: int) -> int:
    """PyTorch takes negative seeds too, as the same bits."""
    seed = int(seed)
    if not -(2**63) <= seed < 2**64:
        raise RuntimeError(f"Overflow when unpacking long long: seed {seed}")
    return seed % 2**64


def manual_seed(seed: int) -> None:
    """Seeds the current device."""
    _C.manual_seed(_unsigned(seed), _C.current_device())


def manual_seed_all(seed: int) -> None:
    """Seeds every device."""
    for index in range(_C.device_count()):
        _C.manual_seed(_unsigned(seed), index)


def seed() -> int:
    """Seeds the current device with a random number, which it returns."""
    value = torch.Generator(device="cpu").seed()
    manual_seed(value)
    return value


def seed_all() -> None:
    """Seeds every device with one random number."""
    manual_seed_all(torch.Generator(device="cpu").seed())


def initial_seed() -> int:
    """Seed of the current device."""
    return _C.initial_seed(_C.current_device())


def get_rng_state(device: Device = "tvarant") -> torch.Tensor:
    """State of a device's generator, a uint8 tensor on the CPU."""
    return _C.get_rng_state(_get_device_index(device))


def set_rng_state(new_state: torch.Tensor, device: Device = "tvarant") -> None:
    """Sets the state that `get_rng_state` gave."""
    _C.set_rng_state(new_state, _get_device_index(device))


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices' generators."""
    return [get_rng_state(index) for index in range(_C.device_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states that `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Generator[None, None, None]:
    """Restores the generators of CPU and device at the end of the block."""
    with torch.random.fork_rng(
        devices if devices is not None else range(_C.device_count()),
        enabled=enabled,
        device_type="tvarant",
    ):
        yield


class _DefaultGenerators:
    """The devices' default generators; made when asked for."""

    def __len__(self) -> int:
        return _C.device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if not 0 <= index < len(self):
            raise IndexError(f"no tvarant device {index}")
        return _C.default_generator(index)


default_generators = _DefaultGenerators()
