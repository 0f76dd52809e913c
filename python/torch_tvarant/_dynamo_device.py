"""What dynamo asks of a device: streams, properties, the current index."""

from __future__ import annotations

from typing import Any

import torch

from torch_tvarant import _C, tvarant


def _interface() -> type:
    from torch._dynamo.device_interface import DeviceInterface

    class TvarantInterface(DeviceInterface):
        """``torch.tvarant`` in the form that dynamo uses."""

        device = tvarant.device
        Event = tvarant.Event
        Stream = tvarant.Stream

        class Worker:
            """The same questions, asked in a compile worker process."""

            @staticmethod
            def set_device(device: int) -> None:
                tvarant.set_device(device)

            @staticmethod
            def current_device() -> int:
                return tvarant.current_device()

            @staticmethod
            def get_device_properties(device: Any = None) -> Any:
                return tvarant.get_device_properties(device)

        current_device = staticmethod(tvarant.current_device)
        set_device = staticmethod(tvarant.set_device)
        device_count = staticmethod(tvarant.device_count)
        is_available = staticmethod(tvarant.is_available)
        stream = staticmethod(tvarant.stream)
        current_stream = staticmethod(tvarant.current_stream)
        set_stream = staticmethod(tvarant.set_stream)
        synchronize = staticmethod(tvarant.synchronize)
        get_device_properties = staticmethod(tvarant.get_device_properties)
        memory_allocated = staticmethod(tvarant.memory_allocated)
        exchange_device = staticmethod(_C.exchange_device)
        maybe_exchange_device = staticmethod(tvarant._maybe_exchange_device)

        @staticmethod
        def _set_stream_by_id(
            stream_id: int, device_index: int, device_type: int
        ) -> None:
            tvarant.set_stream(
                torch.Stream(
                    stream_id=stream_id,
                    device_index=device_index,
                    device_type=device_type,
                )
            )

        @staticmethod
        def get_raw_stream(device_index: int) -> int:
            return tvarant.current_stream(device_index).stream_id

        @staticmethod
        def get_compute_capability(device: Any = None) -> str:
            return tvarant.backend()

        @staticmethod
        def is_bf16_supported(including_emulation: bool | None = False) -> bool:
            return True

    return TvarantInterface


def install() -> None:
    from torch._dynamo.device_interface import register_interface_for_device

    interface = _interface()
    register_interface_for_device("tvarant", interface)
    for index in range(max(_C.device_count(), 1)):
        register_interface_for_device(f"tvarant:{index}", interface)
