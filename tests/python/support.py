"""What the suites share: layouts, comparison with the CPU, a daemon to share."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

DEVICE = torch.device("tvarant", 0)

HALF = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, torch.float64, *HALF)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
INTS = (*SIGNED, torch.uint8)
REAL = (*FLOATS, *INTS)
DTYPES = (*REAL, torch.bool)


# --- tensors ---------------------------------------------------------------


def make(
    *shape: int,
    dtype: torch.dtype = torch.float32,
    low: float = -3,
    high: float = 3,
    seed: int = 0,
) -> torch.Tensor:
    """Numbers in [low, high], the same ones in every run."""
    generator = torch.Generator().manual_seed(seed + sum(shape) * 31 + len(shape))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=dtype)
    if dtype == torch.uint8:
        low = max(low, 0)
    if not dtype.is_floating_point:
        return torch.randint(
            int(low), int(high) + 1, shape, generator=generator, dtype=dtype
        )
    values = torch.rand(shape, generator=generator, dtype=torch.float64)
    return (low + (high - low) * values).to(dtype)


def layouts(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same values in other strides: what an op must not care about."""
    found = {"dense": x}
    room = x.new_zeros([size + 2 for size in x.shape])
    inner = room[tuple(slice(1, 1 + size) for size in x.shape)]
    found["offset"] = inner.copy_(x)
    if x.dim() >= 1:
        gappy = x.new_zeros([*x.shape[:-1], 3 * x.shape[-1] + 1])[..., 1::3]
        found["gappy"] = gappy[..., : x.shape[-1]].copy_(x)
    if x.dim() >= 2:
        found["transposed"] = x.transpose(0, -1).contiguous().transpose(0, -1)
    if x.dim() == 3:
        found["permuted"] = x.permute(1, 2, 0).contiguous().permute(2, 0, 1)
    if x.dim() == 4:
        found["channels_last"] = x.contiguous(memory_format=torch.channels_last)
    return found


def mirror(x: torch.Tensor) -> torch.Tensor:
    """The tensor on the device, with the same strides, offset and storage size."""
    source = x.detach()
    if source.is_conj():
        return mirror(source.conj()).conj()
    if source.is_neg():
        return torch._neg_view(mirror(torch._neg_view(source)))
    count = source.untyped_storage().nbytes() // source.element_size()
    whole = source.as_strided((count,), (1,), 0).to(DEVICE)
    return whole.as_strided(
        source.size(), source.stride(), source.storage_offset()
    ).requires_grad_(x.requires_grad)


def to_device(value: Any) -> Any:
    """Tensors in a nest of lists, tuples and dicts, mirrored on the device."""
    return pytree.tree_map(
        lambda x: mirror(x) if isinstance(x, torch.Tensor) else x, value
    )


# --- comparison ------------------------------------------------------------


def assert_same(
    actual: Any, expected: Any, *, strides: bool = True, **tolerance: Any
) -> None:
    """Same values, dtype and strides as the CPU's result, and on the device.

    `strides=False` is for ops where PyTorch's own devices differ in them.
    """
    flat_actual = pytree.tree_leaves(actual)
    flat_expected = pytree.tree_leaves(expected)
    assert len(flat_actual) == len(flat_expected)
    for ours, theirs in zip(flat_actual, flat_expected, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert ours.device.type == "tvarant"
            assert ours.shape == theirs.shape
            if strides:
                assert ours.stride() == theirs.stride(), "strides"
            torch.testing.assert_close(
                ours.detach().cpu(), theirs.detach(), equal_nan=True, **tolerance
            )
        else:
            assert ours == theirs


def compare(function: Callable[..., Any], *args: Any, **tolerance: Any) -> None:
    """Calls the function with CPU arguments and with their mirrors."""
    on_device = to_device(args)  # first: the function may change its arguments
    expected = function(*args)
    assert_same(function(*on_device), expected, **tolerance)


HALVES = (torch.float16, torch.bfloat16)


def _is_half(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype in HALVES


def compare_gradients(
    function: Callable[..., Any], *args: Any, exact: bool = False, **tolerance: Any
) -> None:
    """Result, and gradients of all floating-point arguments.

    `exact`: half types are held against float64, rounded at the end, where the
    CPU's own kernels round partial sums, by other rules on each processor.
    """
    halves = {x.dtype for x in pytree.tree_leaves(args) if _is_half(x)}
    half = halves.pop() if exact and halves else None

    def widen(value: Any) -> Any:
        return pytree.tree_map(lambda x: x.double() if _is_half(x) else x, value)

    def narrow(value: Any) -> Any:
        return pytree.tree_map(
            lambda x: x.to(half) if isinstance(x, torch.Tensor) else x, value
        )

    def run(values: tuple[Any, ...], move: Callable[[Any], Any]) -> tuple[Any, Any]:
        leaves = [
            v.detach().requires_grad_()
            if isinstance(v, torch.Tensor) and v.dtype.is_floating_point
            else v
            for v in values
        ]
        result = function(*leaves)
        outputs = [
            t
            for t in pytree.tree_leaves(result)
            if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        seeds = [
            move(make(*t.shape, dtype=half or t.dtype, seed=7 + i)).to(t.dtype)
            for i, t in enumerate(outputs)
        ]
        inputs = [v for v in leaves if isinstance(v, torch.Tensor) and v.requires_grad]
        return result, torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)

    if half is None:
        expected = run(args, lambda x: x)
    else:
        expected = narrow(run(widen(args), lambda x: x))
    assert_same(run(to_device(args), mirror), expected, **tolerance)


def on(*values: Any, **options: Any) -> torch.Tensor:
    """torch.tensor(...) made on the host and moved."""
    return torch.tensor(*values, **options).to(DEVICE)


def same(ours: torch.Tensor, values: Any) -> None:
    """The device tensor has these values, given as numbers or nested lists."""
    assert ours.device == DEVICE
    expected = torch.tensor(values, dtype=ours.dtype)
    torch.testing.assert_close(
        ours.detach().cpu(), expected, equal_nan=True, rtol=1e-5, atol=1e-6
    )


def raises(function: Callable[[], Any]) -> None:
    """It raises at the latest when the device is read; then all goes on."""
    try:
        result = function()
        torch.tvarant.synchronize()
    except (RuntimeError, IndexError, ValueError):
        assert (torch.ones(2, device=DEVICE) + 1).tolist() == [2, 2]
    else:
        raise AssertionError(f"no error, but {result}")


class Grid:
    """Runs many small cases and reports every one that failed.

    Example::

        with Grid() as grid:
            for dtype in DTYPES:
                with grid.case(dtype):
                    compare(torch.neg, make(3, dtype=dtype))
    """

    def __init__(self) -> None:
        self.count = 0
        self.failures: list[str] = []

    @contextlib.contextmanager
    def case(self, *label: Any) -> Iterator[None]:
        self.count += 1
        try:
            yield
        except Exception as error:
            text = " | ".join(line for line in str(error).splitlines() if line.strip())
            name = " ".join(
                str(part).removeprefix("torch.") if part is not None else "-"
                for part in label
            )
            self.failures.append(f"{name}: {type(error).__name__}: {text[:300]}")

    def __enter__(self) -> Grid:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            return
        assert self.count > 0, "the grid ran no case"
        shown = "\n".join(self.failures[:40])
        assert not self.failures, (
            f"{len(self.failures)} of {self.count} cases failed:\n{shown}"
        )


# --- processes -------------------------------------------------------------


def daemon_binary() -> Path:
    """The tvarantd that the wheel brought."""
    import torch_tvarant

    return Path(torch_tvarant.__file__).parent / "bin" / "tvarantd"


class Daemon:
    """A tvarantd of the test's own on a socket in a fresh folder.

    `env` is its environment, this process's own by default; `prefix` is a command
    that runs it.
    """

    def __init__(
        self,
        *options: str,
        env: dict[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        # Not pytest's tmp_path: a socket's path must be short.
        self.folder = tempfile.TemporaryDirectory(prefix="tvd")
        self.path = os.path.join(self.folder.name, "s")
        self.options = options
        self.environment = env
        self.prefix = prefix
        self.start()

    def start(self) -> None:
        """Again, on the same socket, after it has ended."""
        # A daemon that ends in order takes the folder along.
        os.makedirs(self.folder.name, mode=0o700, exist_ok=True)
        ready, ready_write = os.pipe()
        self.process = subprocess.Popen(
            [
                *self.prefix,
                str(daemon_binary()),
                f"--listen=unix:{self.path}",
                f"--ready-fd={ready_write}",
                f"--exit-with-parent={os.getpid()}",
                *self.options,
            ],
            stderr=subprocess.DEVNULL,
            pass_fds=[ready_write],
            env=self.environment,
        )
        os.close(ready_write)
        with os.fdopen(ready) as line:
            answer = line.readline().strip()
        assert answer == "ready", answer

    @property
    def env(self) -> dict[str, str]:
        """Environment that sends a client here."""
        return {"TVARANT_ENDPOINT": f"unix:{self.path}"}

    def kill(self) -> None:
        """SIGKILL; the socket stays behind."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self.folder.cleanup()


def start_python(
    code: str, env: dict[str, str] | None = None, **options: Any
) -> subprocess.Popen[str]:
    """A Python process with pipes, to talk to while it runs."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
        **options,
    )


# Answers one line of Python after the other, as long as stdin is open.
CLIENT = """
import sys, torch
for line in sys.stdin:
    try:
        try:
            code = compile(line, "client", "eval")
        except SyntaxError:
            exec(line)
            print("ok", flush=True)
        else:
            print(repr(eval(code)), flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0], flush=True)
"""


class Client:
    """A process that computes on a daemon at our word.

    Example::

        with Client(daemon) as client:
            assert client.do("torch.ones(2).sum().item()") == "2.0"
    """

    def __init__(self, daemon: Daemon, **env: str) -> None:
        self.process = start_python(CLIENT, {**daemon.env, **env})

    def send(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def receive(self) -> str:
        answer = self.process.stdout.readline()
        assert answer, self.process.stderr.read()
        return answer.strip()

    def do(self, line: str) -> str:
        self.send(line)
        return self.receive()

    def run(self, code: str) -> None:
        """Several lines."""
        answer = self.do(f"exec({textwrap.dedent(code)!r})")
        assert answer == "None", answer

    def free(self) -> int:
        return int(self.do("torch.tvarant.mem_get_info()[0]"))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            pipe.close()


class Zygote:
    """The process that scripts are forked from: see zygote.py."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="tvz")
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).parent / "zygote.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout.readline() == "ready\n"

    def run(
        self, code: str, timeout: float = 60, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """As subprocess.run of the interpreter with -c, text captured."""
        paths = [os.path.join(self.folder.name, n) for n in ("output", "errors")]
        for path in paths:
            Path(path).write_text("")
        request = {
            "code": code,
            "env": env or {},
            "output": paths[0],
            "errors": paths[1],
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        child = int(self.process.stdout.readline())
        killer = threading.Timer(timeout, os.kill, (child, signal.SIGKILL))
        killer.start()
        try:
            status = int(self.process.stdout.readline())
        finally:
            expired = not killer.is_alive()
            killer.cancel()
        texts = [Path(path).read_text() for path in paths]
        if expired:
            raise subprocess.TimeoutExpired(code, timeout, *texts)
        return subprocess.CompletedProcess(code, status, *texts)

    def stop(self) -> None:
        """Ends the process; its children have ended."""
        self.process.stdin.close()
        self.process.wait(20)
        self.folder.cleanup()


def wait_until(condition: Callable[[], bool], timeout: float = 5.0) -> bool:
    """Asks again and again until the condition holds or the time is over."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def text_of(x: Any) -> str:
    """How it is printed, without the device and the line breaks it causes."""
    return re.sub(r"\s+", " ", re.sub(r",?\s*device='tvarant:0'", "", repr(x)))
