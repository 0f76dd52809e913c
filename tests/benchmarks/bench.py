"""Speed of the device against torch on the CPU, measured in the same run.

Prints one table of medians. Rows with a ratio compare with the CPU: smaller is
better where the goal says "at most", larger where it says "at least".

    python tests/benchmarks/bench.py            # everything
    python tests/benchmarks/bench.py --only add # rows whose name has "add"
    python tests/benchmarks/bench.py --quick    # few repetitions, to stay alive
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm


@dataclass
class Row:
    """One line of the table. `goal` is "<= 2.0" or ">= 0.95" on `ratio`."""

    name: str
    ours: str
    theirs: str
    ratio: float
    goal: str

    def met(self) -> bool:
        sign, bound = self.goal.split()
        return (
            self.ratio <= float(bound) if sign == "<=" else self.ratio >= float(bound)
        )


QUICK = False


def median_time(function: Callable[[], object], repeat: int, warm: int = 3) -> float:
    """Median seconds of a call; the function waits for its own work."""
    if QUICK:
        repeat, warm = 2, 1
    for _ in range(warm):
        function()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def paired(
    ours: Callable[[], object], theirs: Callable[[], object], repeat: int
) -> tuple[float, float]:
    """Medians of two functions, run in turns so that drift hits both.

    Each timed call follows a pause and an untimed call of the same side, so that
    nothing of the other one is measured: OpenMP's threads spin for milliseconds
    after their work and would take a core, and caches are cold.
    """
    if QUICK:
        repeat = 2
    for function in (ours, theirs, ours, theirs):
        function()
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for times, function in zip(samples, (ours, theirs), strict=True):
            time.sleep(0.02)
            function()
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
    return statistics.median(samples[0]), statistics.median(samples[1])


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us"


def milli(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"


def sync() -> None:
    torch.tvarant.synchronize()


def small_add() -> list[Row]:
    """add of 16 floats, 20,000 calls, then synchronize."""
    calls = 200 if QUICK else 20000
    rows = []
    for name in ("functional", "in-place", "out="):
        times = []
        for device in ("tvarant", "cpu"):
            a, b, out = (torch.ones(16, device=device) for _ in range(3))

            def loop(a=a, b=b, out=out, name=name, device=device) -> None:
                if name == "functional":
                    for _ in range(calls):
                        torch.add(a, b)
                elif name == "in-place":
                    for _ in range(calls):
                        a.add_(b)
                else:
                    for _ in range(calls):
                        torch.add(a, b, out=out)
                if device == "tvarant":
                    sync()

            times.append(loop)
        ours, theirs = paired(times[0], times[1], 7)
        rows.append(
            Row(
                f"add of 16 floats, {name}",
                micro(ours / calls),
                micro(theirs / calls),
                ours / theirs,
                "<= 2.0",
            )
        )
    return rows


def item() -> list[Row]:
    """.item() after an op, against a bare gRPC unary call on the same socket."""
    x = torch.ones(1, device="tvarant")
    y = torch.ones(1, device="tvarant")

    def ours() -> None:
        (x + y).item()

    loops = 20 if QUICK else 2000
    for _ in range(100):
        ours()
    times, calls = [], []
    for _ in range(loops):
        start = time.perf_counter()
        ours()
        times.append(time.perf_counter() - start)
        start = time.perf_counter()
        torch.tvarant.mem_get_info()  # one unary call
        calls.append(time.perf_counter() - start)
    a, b = statistics.median(times), statistics.median(calls)
    return [Row(".item() after an op", micro(a), f"{micro(b)} (RPC)", a / b, "<= 1.2")]


def transfers() -> list[Row]:
    """64 MiB up and down, into recycled memory."""
    host = torch.ones(16 << 20)
    target = torch.empty_like(host)
    block = torch.empty(16 << 20, device="tvarant")
    sync()

    def upload() -> None:
        block.copy_(host)
        sync()

    def cpu_copy() -> None:
        target.copy_(host)

    def download() -> None:
        target.copy_(block)

    rows = []
    for name, function in (("upload", upload), ("download", download)):
        ours, theirs = paired(function, cpu_copy, 15)
        rows.append(
            Row(
                f"{name} of 64 MiB", milli(ours), milli(theirs), theirs / ours, ">= 0.8"
            )
        )
    return rows


def matmul() -> list[Row]:
    rows = []
    for size in (1024, 2048):
        a, b = torch.randn(size, size), torch.randn(size, size)
        da, db = a.to("tvarant"), b.to("tvarant")

        def ours(da=da, db=db) -> None:
            da @ db
            sync()

        ours_s, theirs_s = paired(ours, lambda a=a, b=b: a @ b, 9)
        flop = 2 * size**3
        rows.append(
            Row(
                f"matmul float32 {size}",
                f"{flop / ours_s / 1e9:.0f} GFLOP/s",
                f"{flop / theirs_s / 1e9:.0f} GFLOP/s",
                theirs_s / ours_s,
                ">= 0.95",
            )
        )
    return rows


def pointwise() -> list[Row]:
    """16 M floats with out= and functional."""
    x, y = torch.randn(16 << 20), torch.randn(16 << 20)
    dx, dy = x.to("tvarant"), y.to("tvarant")
    out, dout = torch.empty_like(x), torch.empty_like(dx)
    ops = {
        "add": lambda a, b: torch.add(a, b),
        "exp": lambda a, b: torch.exp(a),
        "gelu": lambda a, b: F.gelu(a),
    }
    out_ops = {
        "add": lambda a, b, o: torch.add(a, b, out=o),
        "exp": lambda a, b, o: torch.exp(a, out=o),
        "gelu": lambda a, b, o: torch.ops.aten.gelu.out(a, out=o),
    }
    rows = []
    for name in ops:

        def ours_out(name=name) -> None:
            out_ops[name](dx, dy, dout)
            sync()

        def ours(name=name) -> None:
            ops[name](dx, dy)
            sync()

        a, b = paired(ours_out, lambda name=name: out_ops[name](x, y, out), 9)
        rows.append(Row(f"{name} of 16 M, out=", milli(a), milli(b), b / a, ">= 0.95"))
        a, b = paired(ours, lambda name=name: ops[name](x, y), 9)
        rows.append(Row(f"{name} of 16 M", milli(a), milli(b), b / a, ">= 2.0"))
    return rows


def digits() -> list[Row]:
    """One epoch of the digits classifier, batch 64, best of 1 and 2 CPU threads."""
    torch.manual_seed(0)
    x, y = torch.rand(1437, 64), torch.randint(0, 10, (1437,))
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    rows = []
    optimizers = {
        "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "Adam": lambda p: torch.optim.Adam(p, lr=1e-3),
    }

    def epoch_on(device: str, make: Callable) -> Callable[[], None]:
        net = copy.deepcopy(model).to(device)
        optimizer = make(net.parameters())
        dx, dy = x.to(device), y.to(device)

        def epoch() -> None:
            for begin in range(0, len(x), 64):
                loss = F.cross_entropy(
                    net(dx[begin : begin + 64]), dy[begin : begin + 64]
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss.item()

        return epoch

    for name, make in optimizers.items():
        ours = epoch_on("tvarant", make)
        theirs = epoch_on("cpu", make)
        best: tuple[float, float] | None = None
        threads = torch.get_num_threads()
        for count in (1, 2):
            torch.set_num_threads(count)
            pair = paired(ours, theirs, 15)
            if best is None or pair[1] < best[1]:
                best = pair
        torch.set_num_threads(threads)
        assert best is not None
        rows.append(
            Row(
                f"digits epoch, {name}",
                milli(best[0]),
                milli(best[1]),
                best[0] / best[1],
                "<= 1.5",
            )
        )
    return rows


def first_result() -> list[Row]:
    """First result after `import torch`, a private daemon started for it."""
    code = (
        "import time, torch; start = time.perf_counter();"
        "x = torch.ones(4, device='tvarant'); (x + 1).sum().item();"
        "print(time.perf_counter() - start)"
    )
    env = {k: v for k, v in os.environ.items() if k != "TVARANT_ENDPOINT"}
    times = []
    for _ in range(1 if QUICK else 5):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        times.append(float(done.stdout))
    seconds = statistics.median(times)
    return [
        Row("first result, private daemon", f"{seconds:.2f} s", "-", seconds, "<= 1.0")
    ]


def import_time() -> list[Row]:
    """What autoload adds to `import torch`."""

    def seconds(autoload: str) -> float:
        times = []
        for _ in range(1 if QUICK else 5):
            done = subprocess.run(
                [
                    sys.executable,
                    "-c",
                    "import time; s = time.perf_counter(); import torch;"
                    "print(time.perf_counter() - s)",
                ],
                env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
                capture_output=True,
                text=True,
                check=True,
            )
            times.append(float(done.stdout))
        return min(times)

    with_it, without = seconds("1"), seconds("0")
    return [
        Row(
            "import torch, added",
            f"{with_it:.2f} s",
            f"{without:.2f} s",
            with_it - without,
            "<= 0.1",
        )
    ]


_WORKER = """
import sys, time, torch
a = torch.randn(512, 512, device='tvarant')
for _ in range(5): a @ a
torch.tvarant.synchronize()
print('ready', flush=True); sys.stdin.readline()
start = time.perf_counter(); n = 0
while time.perf_counter() - start < float(sys.argv[1]):
    for _ in range(5): a @ a
    torch.tvarant.synchronize(); n += 5
print(n / (time.perf_counter() - start), flush=True)
"""


def two_processes() -> list[Row]:
    """Matmul loops of two processes on one daemon against one alone."""
    torch.ones(1, device="tvarant")
    env = {
        **os.environ,
        "TVARANT_ENDPOINT": torch.tvarant.get_device_properties().endpoint,
    }
    span = "0.2" if QUICK else "2"

    def rate(count: int) -> float:
        workers = [
            subprocess.Popen(
                [sys.executable, "-c", _WORKER, span],
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(count)
        ]
        for worker in workers:
            worker.stdout.readline()
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        total = sum(float(worker.stdout.readline()) for worker in workers)
        for worker in workers:
            worker.wait()
        return total

    alone, together = rate(1), rate(2)
    return [
        Row(
            "two processes, matmul loop",
            f"{together:.0f}/s",
            f"{alone:.0f}/s",
            together / alone,
            ">= 0.9",
        )
    ]


BENCHMARKS = {
    "add": small_add,
    "item": item,
    "transfer": transfers,
    "matmul": matmul,
    "pointwise": pointwise,
    "digits": digits,
    "first": first_result,
    "import": import_time,
    "processes": two_processes,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose group has this text")
    parser.add_argument("--quick", action="store_true", help="few repetitions")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    args = parser.parse_args()
    global QUICK
    QUICK = args.quick
    chosen = {name: f for name, f in BENCHMARKS.items() if args.only in name}
    rows: list[Row] = []
    for function in tqdm(chosen.values(), unit="group", leave=False):
        rows += function()
    if args.json:
        print(json.dumps([{**vars(row), "met": row.met()} for row in rows]))
        return 0
    properties = torch.tvarant.get_device_properties()
    print(
        f"{properties.name}, {properties.instruction_set}, "
        f"{torch.get_num_threads()} torch threads, torch {torch.__version__}\n"
    )
    print(
        "| what | tvarant | torch CPU | ratio | goal | met |\n|---|---|---|---|---|---|"
    )
    for row in rows:
        print(
            f"| {row.name} | {row.ours} | {row.theirs} | {row.ratio:.2f} "
            f"| {row.goal} | {'yes' if row.met() else 'no'} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
