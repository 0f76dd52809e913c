"""Cases of users about processes and threads: exit, fork, races, steps.

See test_user_cases.py.
"""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, make, start_python
from torch import nn

PRIVATE = {"TVARANT_ENDPOINT": ""}


class TestUc10Exit:
    @pytest.mark.parametrize(
        "code",
        [
            "x = torch.ones(4, device='tvarant')",
            "views = list(torch.ones(4, 4, device='tvarant').unbind())",
            "p = torch.nn.Parameter(torch.ones(3, device='tvarant'))\n"
            "p.sum().backward()",
            "import threading, time\ndef hold():\n"
            "    x = torch.ones(3, device='tvarant'); time.sleep(0.3); x + 1\n"
            "threading.Thread(target=hold).start()",
            "import threading, time\ndef hold():\n"
            "    x = torch.ones(3, device='tvarant'); time.sleep(30)\n"
            "threading.Thread(target=hold, daemon=True).start()\ntime.sleep(1)",
            "import sys\nwith torch.no_grad():\n"
            "    x = torch.ones(3, device='tvarant'); sys.exit(0)",
            "import atexit\nx = torch.ones(3, device='tvarant')\n"
            "atexit.register(lambda: x.sum().item())",
            "class C:\n    def __del__(self): self.x + 1\n"
            "c = C(); c.x = torch.ones(3, device='tvarant')",
            "x = torch.ones(300, 300, device='tvarant')\nfor _ in range(50): x = x @ x",
        ],
    )
    def test_uc10_silent(self, script, code):
        done = script("import torch\n" + code)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_uc10_interrupt_in_a_long_op(self):
        process = start_python(
            """
import torch
x = torch.eye(1024, device="tvarant")
print("ready", flush=True)
while True:
    x = x @ x
    torch.tvarant.synchronize()
""",
            PRIVATE,
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        assert process.returncode in (130, -signal.SIGINT)
        assert errors.strip().endswith("KeyboardInterrupt")


class TestUc11Fork:
    def test_uc11_loader_with_workers_then_the_device(self, script):
        done = script(
            """
import torch
from torch.utils.data import DataLoader, TensorDataset
w = torch.ones(1, device="tvarant")
data = TensorDataset(torch.arange(24.0))
seen = []
for _ in range(2):
    for (batch,) in DataLoader(data, batch_size=6, num_workers=2, pin_memory=True):
        seen.append((batch.to("tvarant", non_blocking=True) * w).sum().item())
print(seen)
"""
        )
        sums = [sum(range(i, i + 6)) * 1.0 for i in range(0, 24, 6)]
        assert done.stdout.strip() == str(sums * 2), done.stderr
        assert "fork" not in done.stderr

    def test_uc11_worker_that_uses_the_device(self, script):
        done = script(
            """
import torch
from torch.utils.data import DataLoader, Dataset
class OnDevice(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.ones(1, device="tvarant")
torch.ones(1, device="tvarant").item()
try:
    list(DataLoader(OnDevice(), num_workers=1))
except RuntimeError as error:
    print("spawn" in str(error))
print((torch.ones(2, device="tvarant") + 1).tolist())
"""
        )
        assert done.stdout.split("\n")[:2] == ["True", "[2.0, 2.0]"], done.stderr

    def test_uc11_spawned_process_uses_the_device(self, tmp_path):
        program = tmp_path / "program.py"
        program.write_text(
            """
import torch
import torch.multiprocessing as mp

def work(rank, queue):
    queue.put((torch.ones(4, device="tvarant") * rank).sum().item())

if __name__ == "__main__":
    torch.ones(1, device="tvarant").item()
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    processes = [context.Process(target=work, args=(i, queue)) for i in range(2)]
    for p in processes: p.start()
    print(sorted(queue.get() for _ in processes))
    for p in processes: p.join()
"""
        )
        done = subprocess.run(
            [sys.executable, program], capture_output=True, text=True, timeout=90
        )
        assert done.stdout.strip() == "[0.0, 4.0]", done.stderr

    def test_uc11_seeding_warns_of_nothing(self, script):
        done = script(
            "import torch, warnings\n"
            "warnings.simplefilter('error'); torch.manual_seed(1)"
        )
        assert (done.returncode, done.stderr) == (0, "")

    def test_uc11_children_live_while_the_parent_works(self, script):
        done = script(
            """
import os, time, torch
x = torch.ones(64, device="tvarant")
children = []
for i in range(5):
    child = os.fork()
    if child == 0:
        time.sleep(0.05 * i)
        os._exit(0)
    children.append(child)
    x = x + 1
total = x.sum().item()
for child in children:
    os.waitpid(child, 0)
print(total, (x + 1).sum().item())
"""
        )
        assert done.stdout.split() == ["384.0", "448.0"], done.stderr


class TestUc31Threads:
    OPS = (
        torch.exp,
        torch.sin,
        torch.cos,
        torch.tanh,
        torch.sqrt,
        torch.log1p,
        torch.sigmoid,
        torch.erf,
    )

    def test_uc31_small_ops_in_eight_threads(self):
        x = make(50, low=0.1)
        d = x.to(DEVICE)
        errors = []

        def work(op):
            try:
                for i in range(250):
                    y = op(d)
                    if i % 50 == 0:
                        torch.testing.assert_close(y.cpu(), op(x), rtol=1e-4, atol=1e-5)
                        d.gt(1).nonzero()
                        y.sum().item()
                    torch.empty(17 * (i % 13), device=DEVICE)
            except Exception as error:
                errors.append(f"{op.__name__}: {error}")

        threads = [threading.Thread(target=work, args=(op,)) for op in self.OPS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors

    def test_uc31_backward_in_two_threads(self):
        results: dict[int, list[float]] = {}

        def work(seed):
            w = make(16, 16, seed=seed).to(DEVICE).requires_grad_()
            for _ in range(30):
                (w @ w).tanh().sum().backward()
            results[seed] = w.grad.cpu().flatten()[:4].tolist()

        threads = [threading.Thread(target=work, args=(s,)) for s in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for seed in (1, 2):
            w = make(16, 16, seed=seed).requires_grad_()
            for _ in range(30):
                (w @ w).tanh().sum().backward()
            assert results[seed] == pytest.approx(
                w.grad.flatten()[:4].tolist(), rel=1e-3
            )

    def test_uc31_synchronising_changes_nothing(self):
        def train(wait: bool) -> list[float]:
            torch.manual_seed(5)
            model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to(
                DEVICE
            )
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            losses = []
            for epoch in range(20):
                x = make(12, 8, seed=epoch).to(DEVICE)
                y = torch.arange(12, device=DEVICE) % 3
                for step in (
                    lambda: optimizer.zero_grad(),
                    lambda x=x, y=y: losses.append(F.cross_entropy(model(x), y)),
                    lambda: losses[-1].backward(),
                    lambda: optimizer.step(),
                ):
                    step()
                    if wait:
                        torch.tvarant.synchronize()
            return [loss.item() for loss in losses]

        assert train(False) == train(True)


class TestUc53Copies:
    def test_uc53_written_base_shows_in_the_copied_view(self):
        base = torch.arange(8.0, device=DEVICE)
        first, view = copy.deepcopy([base, base[2:6]])
        first[3] = 99
        assert view.tolist() == [2, 99, 4, 5] and base[3].item() == 3

    def test_uc53_numpy_names_the_cure(self):
        with pytest.raises(TypeError, match="cpu"):
            torch.ones(2, device=DEVICE).numpy()


def test_uc14_checkpoint_needs_neither_daemon_nor_package(fresh_script, tmp_path):
    model = nn.Linear(2, 2).to(DEVICE)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    done = fresh_script(
        f"""
import torch
state = torch.load({str(tmp_path / "model.pt")!r}, map_location={{"tvarant:0": "cpu"}})
print(sorted(state), state["weight"].device)
""",
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": os.environ["PATH"]},
    )
    assert done.stdout.strip() == "['bias', 'weight'] cpu", done.stderr
