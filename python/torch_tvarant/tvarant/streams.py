"""Streams and events of the device.

They derive from ``torch.Stream`` and ``torch.Event``, so they go wherever those
go (``torch.accelerator``, dynamo).
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

import torch

from torch_tvarant._utils import Device, _get_device_index


class Stream(torch.Stream):
    """An in-order queue of a device.

    Args:
        device: the device; None is the current one.
        priority: below 0 is a stream of high priority.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: Any) -> Stream:
        if "stream_id" in kwargs:
            return super().__new__(cls, priority=priority, **kwargs)
        where = torch.device("tvarant", _get_device_index(device))
        return super().__new__(cls, device=where, priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        """Later work waits for the event."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Later work waits for all that is queued on `stream` now."""
        self.wait_event(stream.record_event())

    def __repr__(self) -> str:
        return f"torch.tvarant.Stream(device={self.device}, id={self.stream_id})"


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) is torch.Event and instance.device.type == "tvarant"


class Event(torch.Event, metaclass=_EventType):
    """A point in a stream: a ``torch.Event`` of this device.

    No class of its own: ``torch.Event.elapsed_time`` takes no subclass. Events
    that a stream made are instances too.

    Args:
        enable_timing: whether `elapsed_time` may be asked.
    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, **kwargs: Any
    ) -> torch.Event:
        return torch.Event(
            device="tvarant", enable_timing=enable_timing, blocking=blocking
        )


def _wrap(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )


def current_stream(device: Device = None) -> Stream:
    """This thread's current stream on a device."""
    return _wrap(torch.accelerator.current_stream(_get_device_index(device)))


def default_stream(device: Device = None) -> Stream:
    """The stream that a device starts with."""
    index = _get_device_index(device)
    device_type = torch.accelerator.current_stream(index).device_type
    return Stream(stream_id=0, device_index=index, device_type=device_type)


def set_stream(stream: torch.Stream | None) -> None:
    """Makes `stream` current, on its device, in this thread. None: nothing."""
    if stream is not None:
        torch.accelerator.set_stream(stream)


class StreamContext:
    """Context manager that makes a stream, and its device, current."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous: torch.Stream | None = None
        self._previous_device = 0

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._previous_device = torch.accelerator.current_device_index()
        self._previous = torch.accelerator.current_stream(self.stream.device_index)
        torch.accelerator.set_stream(self.stream)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._previous is None:
            return
        torch.accelerator.set_stream(self._previous)
        torch.accelerator.set_device_index(self._previous_device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager for a stream: ``with torch.tvarant.stream(s): ...``."""
    return StreamContext(stream)
