"""torch.autograd.profiler on the device."""

from __future__ import annotations

import torch
from support import DEVICE


def test_device_times_of_operators():
    x = torch.randn(512, 512, device=DEVICE)
    with torch.autograd.profiler.profile(use_device="tvarant") as profile:
        y = (x @ x).relu()
        for _ in range(3):
            y = y @ x
    by_name = {event.key: event for event in profile.key_averages()}
    assert by_name["aten::mm"].count == 4
    assert by_name["aten::mm"].device_time_total > 0
    assert (
        by_name["aten::matmul"].device_time_total
        >= by_name["aten::mm"].device_time_total
    )
    assert "tvarant" in profile.table().lower()
