"""The OpenCL runtime from Python, in processes of their own: PoCL on CI."""

from __future__ import annotations

import re
import time
from pathlib import Path

# An MLP on scikit-learn's digits: losses on the device and on the CPU.
DIGITS = """
import torch
from sklearn.datasets import load_digits

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images[:512], dtype=torch.float32) / 16
labels = torch.tensor(labels[:512])


def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    ).to(device)
    x, y = images.to(device), labels.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


device, cpu = train("tvarant"), train("cpu")
assert torch.tvarant.get_device_properties(0).runtime == "opencl"
torch.testing.assert_close(device, cpu, rtol=1e-4, atol=1e-5)
assert device[-1] < device[0]
assert torch.tvarant.fallback_stats() == {}
"""


def kernels(log: Path) -> dict[str, int]:
    """What the daemon that writes the log says of its kernels at its end."""
    deadline = time.monotonic() + 30
    while "event=stopped" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    line = re.search(r"event=kernels (.*)", log.read_text())
    assert line, log.read_text()
    return {
        name: int(value)
        for name, value in (word.split("=") for word in line.group(1).split())
    }


class TestDigits:
    def test_equal_to_the_cpu_and_a_second_start_compiles_nothing(
        self, script, tmp_path
    ):
        compiled = []
        for run in range(2):
            log = tmp_path / f"daemon-{run}.log"
            done = script(
                DIGITS,
                timeout=250,
                env={
                    "TVARANT_BACKEND": "opencl",
                    "TVARANT_KERNEL_CACHE_DIR": str(tmp_path / "kernels"),
                    "TVARANT_DAEMON_LOG": str(log),
                },
            )
            assert done.returncode == 0, done.stderr
            compiled.append(kernels(log))
        first, second = compiled
        assert first["compiled"] > 0 and first["failed"] == 0
        assert second["compiled"] == 0
        assert second["loaded"] == first["compiled"]


class TestErrors:
    def test_a_bad_index_names_the_op_and_the_process_goes_on(self, script):
        done = script(
            """
import torch

x = torch.arange(12.0, device="tvarant").reshape(3, 4)
try:
    torch.index_select(x, 0, torch.tensor([0, 7], device="tvarant")).cpu()
except IndexError as error:
    assert "index 7 is out of bounds" in str(error), error
    assert "index_select" in str(error), error
else:
    raise AssertionError("no error")
a = torch.tensor([7, 8], device="tvarant")
try:
    (a // torch.tensor([2, 0], device="tvarant")).cpu()
except RuntimeError as error:
    assert "ZeroDivisionError" in str(error), error
else:
    raise AssertionError("no error")
assert (x + 1).sum().item() == 78
""",
            timeout=120,
            env={"TVARANT_BACKEND": "opencl"},
        )
        assert done.returncode == 0, done.stderr

    def test_an_unwritable_cache_is_a_warning(self, script, tmp_path):
        log = tmp_path / "daemon.log"
        done = script(
            "import torch; assert torch.ones(3, device='tvarant').sum().item() == 3",
            timeout=120,
            env={
                "TVARANT_BACKEND": "opencl",
                "TVARANT_KERNEL_CACHE_DIR": "/proc/nowhere",
                "TVARANT_DAEMON_LOG": str(log),
            },
        )
        assert done.returncode == 0, done.stderr
        assert "event=no_kernel_cache" in log.read_text()
