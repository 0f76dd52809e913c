"""Tools of PyTorch's users: timers, determinism, loaders, files, processes.

Cases with a number are explained in test_user_cases.py.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest
import torch
import torch.nn.functional as F
import torch.utils.benchmark
from support import DEVICE, DTYPES, assert_same, make
from torch import nn


class TestTimer:
    def test_waits_for_the_device(self):
        x = torch.eye(768, device=DEVICE)

        def chain():
            y = x
            for _ in range(8):
                y = y @ x
            return y

        times = []
        for _ in range(5):
            begin = time.perf_counter()
            chain()
            torch.tvarant.synchronize()
            times.append(time.perf_counter() - begin)
        timer = torch.utils.benchmark.Timer("chain()", globals={"chain": chain})
        # Without a wait it would see the calls alone, a hundredth of this.
        assert timer.timeit(3).mean > 0.5 * min(times)

    def test_autorange_and_compare(self):
        x = make(64, 64).to(DEVICE)
        results = [
            torch.utils.benchmark.Timer(
                statement, globals={"x": x}, label="ops", description="tvarant"
            ).blocked_autorange(min_run_time=0.05)
            for statement in ("x + 1", "x @ x")
        ]
        assert all(result.median > 0 for result in results)
        assert "tvarant" in str(torch.utils.benchmark.Compare(results))


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("deterministic")
class TestDeterminism:
    index = torch.randint(0, 50, (20_000,), generator=torch.Generator().manual_seed(1))
    source = make(20_000, 8, seed=2)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize(
        "function",
        [
            lambda z, i, s: z.index_add(0, i, s),
            lambda z, i, s: z.scatter_add(0, i[:, None].expand_as(s), s),
            lambda z, i, s: z.scatter_reduce(0, i[:, None].expand_as(s), s, "mean"),
            lambda z, i, s: z.index_put((i,), s, accumulate=True),
            lambda z, i, s: z.index_copy(0, i[:1], s[:1]),
            lambda z, i, s: s.cumsum(0),
            lambda z, i, s: F.embedding_bag(i, s[:50].float(), i[:1] * 0),
            lambda z, i, s: torch.bincount(i, minlength=50),
            lambda z, i, s: F.interpolate(s[None, None].float(), scale_factor=2),
        ],
    )
    def test_same_results_twice(self, function, dtype):
        z = torch.zeros(50, 8, dtype=dtype, device=DEVICE)
        i, s = self.index.to(DEVICE), self.source.to(DEVICE, dtype)
        first = function(z, i, s)
        busy = [s @ s.t()[:, :64] for _ in range(3)]
        second = function(z, i, s)
        assert torch.equal(first, second)
        del busy

    def test_sums_are_right(self):
        z = torch.zeros(50, 8, device=DEVICE)
        i, s = self.index.to(DEVICE), self.source.to(DEVICE)
        expected = torch.zeros(50, 8, dtype=torch.float64).index_add(
            0, self.index, self.source.double()
        )
        for ours in (
            z.index_add(0, i, s),
            z.scatter_add(0, i[:, None].expand_as(s), s),
            z.index_put((i,), s, accumulate=True),
        ):
            assert torch.allclose(ours.cpu().double(), expected, atol=1e-3)

    def test_gradients_are_the_same_twice(self):
        def gradients():
            torch.manual_seed(0)
            model = nn.Sequential(
                nn.Embedding(50, 16), nn.Linear(16, 16), nn.LayerNorm(16)
            ).to(DEVICE)
            model(self.index[:4096].to(DEVICE)).pow(2).sum().backward()
            return [p.grad for p in model.parameters()]

        for first, second in zip(gradients(), gradients(), strict=True):
            assert torch.equal(first, second)

    @pytest.mark.parametrize("dtype", [*DTYPES, torch.complex64])
    def test_empty_memory_is_filled(self, dtype):
        ours, theirs = (
            [
                torch.empty(100, dtype=dtype, device=device),
                torch.empty_strided((3, 4), (1, 3), dtype=dtype, device=device),
                torch.empty(0, dtype=dtype, device=device),
                torch.zeros(2, dtype=dtype, device=device).resize_(50),
                torch.ones(9, dtype=dtype, device=device).resize_(4),
                torch.zeros(2, dtype=dtype, device=device).new_empty(3, 3),
            ]
            for device in (DEVICE, "cpu")
        )
        assert_same(ours, theirs)

    def test_empty_memory_is_left_alone_when_asked(self):
        torch.utils.deterministic.fill_uninitialized_memory = False
        try:
            x = torch.zeros(3_333_333, device=DEVICE)
            torch.tvarant.synchronize()
            del x
            assert not torch.empty(3_333_333, device=DEVICE).isnan().any().item()
        finally:
            torch.utils.deterministic.fill_uninitialized_memory = True


def run_program(folder, text: str) -> subprocess.CompletedProcess:
    """A file, since processes that are spawned import it."""
    program = folder / "program.py"
    program.write_text(text)
    return subprocess.run(
        [sys.executable, program],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_spawned_workers_and_pinned_batches(tmp_path):
    done = run_program(
        tmp_path,
        """
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self): return 24
    def __getitem__(self, i): return torch.full((3,), float(i * i)), i

class OnDevice(Dataset):
    def __len__(self): return 8
    def __getitem__(self, i): return torch.full((2,), float(i), device="tvarant")

if __name__ == "__main__":
    w = torch.ones(1, device="tvarant")
    loader = DataLoader(Squares(), batch_size=5, num_workers=2, pin_memory=True,
                        multiprocessing_context="spawn", persistent_workers=True)
    for _ in range(2):
        total = 0.0
        for values, number in loader:
            assert values.is_pinned() and number.is_pinned()
            total += (values.to("tvarant", non_blocking=True) * w).sum().item()
        print(total)
    workers = DataLoader(OnDevice(), batch_size=4, num_workers=1,
                         multiprocessing_context="spawn")
    print([(batch.device.type, batch.sum().item()) for batch in workers])
""",
    )
    total = 3.0 * sum(i * i for i in range(24))
    assert done.stdout.splitlines() == [
        str(total),
        str(total),
        "[('tvarant', 12.0), ('tvarant', 44.0)]",
    ], done.stderr


class TestUc56Queues:
    """What arrives is a copy: processes share no memory of the device."""

    HEAD = """
import sys, time
import torch
import torch.multiprocessing as mp

def double(x):
    return x * 2

def consume(queue, answers):
    x, view, half, parameter = queue.get(timeout=60)
    answers.put((x.device.type, x.tolist(), view.tolist(), view.stride(),
                 half.dtype, half.tolist(), type(parameter), parameter.requires_grad))
    x.add_(1)
    answers.put(x)

def produce(queue):
    queue.put(torch.arange(100_000, device="tvarant"))

"""

    def test_uc56_to_another_process_and_back(self, tmp_path):
        done = run_program(
            tmp_path,
            self.HEAD
            + """
if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue, answers = context.Queue(), context.Queue()
    process = context.Process(target=consume, args=(queue, answers))
    process.start()
    x = torch.arange(6.0, device="tvarant").view(2, 3)
    half = torch.ones(2, 0, 3, device="tvarant", dtype=torch.bfloat16)
    queue.put((x, x.t(), half, torch.nn.Parameter(x.clone())))
    for part in answers.get(timeout=60): print(part)
    y = answers.get(timeout=60)
    print(y.device.type, y.tolist())
    print(x.tolist())
    process.join()
""",
        )
        assert done.stdout.splitlines() == [
            "tvarant",
            "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]",
            "[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]",
            "(1, 3)",
            "torch.bfloat16",
            "[[], []]",
            "<class 'torch.nn.parameter.Parameter'>",
            "True",
            "tvarant [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]",
            "[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]",
        ], done.stderr

    def test_uc56_sender_ends_first(self, tmp_path):
        done = run_program(
            tmp_path,
            self.HEAD
            + """
if __name__ == "__main__":
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=produce, args=(queue,))
    process.start()
    time.sleep(0.5)
    x = queue.get(timeout=60)
    process.join(60)
    print(process.exitcode, x.device.type, x.sum().item())
""",
        )
        assert done.stdout == "0 tvarant 4999950000\n", done.stderr

    def test_uc56_pools_and_managers(self, tmp_path):
        done = run_program(
            tmp_path,
            self.HEAD
            + """
if __name__ == "__main__":
    context = mp.get_context("spawn")
    with context.Pool(1) as pool:
        parts = pool.map(double, [torch.ones(2, device="tvarant") * i for i in (1, 2)])
    print([(x.device.type, x.tolist()) for x in parts])
    with context.Manager() as manager:
        queue = manager.Queue()
        queue.put(torch.ones(2, device="tvarant"))
        print(queue.get(timeout=60).tolist())
    pipe, other = context.Pipe()
    pipe.send(torch.tensor(True, device="tvarant"))
    print(other.recv())
""",
        )
        assert done.stdout.splitlines() == [
            "[('tvarant', [2.0, 2.0]), ('tvarant', [4.0, 4.0])]",
            "[1.0, 1.0]",
            "tensor(True, device='tvarant:0')",
        ], done.stderr

    def test_uc56_share_memory_does_nothing(self):
        x = torch.ones(3, device=DEVICE)
        place = x.data_ptr()
        assert x.share_memory_() is x
        assert x.data_ptr() == place
        model = nn.Linear(2, 2).to(DEVICE)
        assert model.share_memory() is model

    def test_uc56_history_is_refused_at_once(self):
        from multiprocessing.reduction import ForkingPickler

        x = torch.ones(2, device=DEVICE, requires_grad=True)
        with pytest.raises(RuntimeError, match="detach"):
            ForkingPickler.dumps(x * 2)
        again = ForkingPickler.loads(ForkingPickler.dumps(x))
        assert again.requires_grad and again.is_leaf and again.tolist() == [1, 1]
        conjugate = torch.tensor([1 + 2j], device=DEVICE).conj()
        again = ForkingPickler.loads(ForkingPickler.dumps(conjugate))
        assert again.tolist() == [1 - 2j]
        views = torch.arange(12.0, device=DEVICE).view(3, 4)
        for view in (
            views[:, 1:3],
            views[::2].t(),
            views[0, 0],
            views[:1].expand(3, 4),
        ):
            again = ForkingPickler.loads(ForkingPickler.dumps(view))
            assert torch.equal(again, view)


class TestSafetensors:
    def test_saved_from_the_device(self, tmp_path):
        safetensors = pytest.importorskip("safetensors.torch")
        path = str(tmp_path / "model.safetensors")
        state = {
            "w": make(64, 33).to(DEVICE),
            "half": make(5, dtype=torch.bfloat16).to(DEVICE),
            "number": torch.tensor(7, device=DEVICE),
            "mask": make(9, dtype=torch.bool).to(DEVICE),
        }
        safetensors.save_file(state, path)
        loaded = safetensors.load_file(path)
        for name, value in state.items():
            assert torch.equal(loaded[name].to(DEVICE), value)
        again = safetensors.load(safetensors.save(state))
        assert torch.equal(again["w"], state["w"].cpu())

    def test_models(self, tmp_path):
        safetensors = pytest.importorskip("safetensors.torch")
        path = str(tmp_path / "model.safetensors")
        model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).to(DEVICE)
        safetensors.save_model(model, path)
        other = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)).to(DEVICE)
        safetensors.load_model(other, path)
        for first, second in zip(model.parameters(), other.parameters(), strict=True):
            assert second.device == DEVICE
            assert torch.equal(first, second)


class TestUc50CompiledBackward:
    @pytest.fixture(autouse=True)
    def fresh(self):
        torch._dynamo.reset()
        yield
        torch._dynamo.reset()

    def test_uc50_a_step_waits_for_nothing(self, no_fallback):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)
        ).to(DEVICE)
        compiled = torch.compile(model, backend="tvarant")
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        x, y = make(8, 16).to(DEVICE), torch.arange(8, device=DEVICE) % 4

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(compiled(x), y)
            loss.backward()
            optimizer.step()
            return loss

        first = step().item()
        for _ in range(3):
            step()
        torch.tvarant.synchronize()
        before = torch.tvarant.counters()["round_trips"]
        for _ in range(5):
            loss = step()
        assert torch.tvarant.counters()["round_trips"] == before
        assert loss.item() < first

    def test_uc50_both_directions_come_to_us(self, monkeypatch):
        from torch_tvarant import compiler

        seen = []
        compile_fx = compiler.compile_fx

        def spy(gm, inputs):
            seen.append(len(gm.graph.nodes))
            return compile_fx(gm, inputs)

        monkeypatch.setattr(compiler, "compile_fx", spy)
        f = torch.compile(lambda x: (x.sin() * x).relu(), backend="tvarant")
        x = make(50).to(DEVICE).requires_grad_()
        f(x).sum().backward()
        assert len(seen) == 2
        twin = make(50).requires_grad_()
        (twin.sin() * twin).relu().sum().backward()
        assert torch.allclose(x.grad.cpu(), twin.grad, atol=1e-6)

    def test_uc50_reading_in_the_middle(self):
        def f(x, w):
            y = (x @ w).tanh()
            if y.sum().item() > 0:
                y = y * 2
            torch.tvarant.synchronize()
            return (y * y).sum()

        compiled = torch.compile(f, backend="tvarant")
        for seed in range(3):
            for g, device in ((f, "cpu"), (compiled, DEVICE)):
                w = make(4, 4, seed=seed).to(device).requires_grad_()
                g(make(3, 4, seed=seed + 9).to(device), w).backward()
                if device == "cpu":
                    expected = w.grad
            assert torch.allclose(w.grad.cpu(), expected, atol=1e-4)

    def test_uc50_two_dropouts_repeat_under_a_seed(self):
        def f(x):
            return F.dropout(x, 0.3) * 2 + F.dropout(x, 0.7)

        compiled = torch.compile(f, backend="tvarant")
        x = torch.ones(1000, device=DEVICE, requires_grad=True)
        results = []
        for _ in range(2):
            torch.manual_seed(4)
            y = compiled(x)
            x.grad = None
            y.sum().backward()
            results.append((y.detach(), x.grad))
        assert torch.equal(results[0][0], results[1][0])
        # One mask forward and backward.
        assert torch.equal(results[0][0], results[0][1])
