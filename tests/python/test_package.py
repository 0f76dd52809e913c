"""The installed package: entry points, a light import, and never a broken torch."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support import daemon_binary

import torch_tvarant

PACKAGE = Path(torch_tvarant.__file__).parent


class TestInstalled:
    def test_version(self):
        assert re.fullmatch(r"\d+\.\d+\.\d+\S*", torch_tvarant.__version__)
        assert importlib.metadata.version("torch_tvarant") == torch_tvarant.__version__

    def test_entry_points(self):
        def names(group: str) -> dict[str, str]:
            return {
                p.name: p.value for p in importlib.metadata.entry_points(group=group)
            }

        assert names("torch.backends")["torch_tvarant"] == "torch_tvarant:_autoload"
        assert names("torch_dynamo_backends")["tvarant"] == (
            "torch_tvarant.dynamo_backend:tvarant"
        )

    def test_files(self):
        assert os.access(daemon_binary(), os.X_OK)
        assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_C.pyi").exists()

    def test_daemon_has_the_same_version(self):
        done = subprocess.run(
            [daemon_binary(), "--version"], capture_output=True, text=True, timeout=20
        )
        assert done.stdout == f"tvarantd {torch_tvarant.__version__}\n"

    def test_stub_names_exactly_what_the_module_has(self):
        stub = (PACKAGE / "_C.pyi").read_text()
        named = set(re.findall(r"^def (\w+)", stub, re.M))
        real = {
            n for n in dir(torch_tvarant._C) if callable(getattr(torch_tvarant._C, n))
        }
        assert named == {n for n in real if not n.startswith("__")}

    def test_daemons_help_and_wrong_words(self):
        def run(*words: str) -> subprocess.CompletedProcess:
            return subprocess.run(
                [daemon_binary(), *words], capture_output=True, text=True, timeout=20
            )

        shown = run("--help")
        assert shown.returncode == 0
        for option in ("--listen", "--runtime", "--memory", "--config", "--version"):
            assert option in shown.stdout
        for words in (
            ["--nonsense"],
            ["--memory=lots"],
            ["--listen=ftp:x"],
            ["--runtime=gpu", "--listen=unix:/tmp/never"],
            ["--config=/nonexistent"],
        ):
            done = run(*words)
            assert done.returncode not in (0, -6, -11), words
            assert len(done.stderr.strip().splitlines()) == 1, done.stderr


class TestImport:
    def test_torch_alone_brings_the_device(self, fresh_script):
        done = fresh_script(
            "import torch; print(torch.tvarant.is_available(), torch.device('tvarant'))"
        )
        assert done.stdout.strip() == "True tvarant", done.stderr

    @pytest.mark.parametrize(
        "names", ["torch", "torch_tvarant", "torch, torch_tvarant"]
    )
    def test_warns_of_nothing(self, fresh_script, names):
        done = fresh_script(f"import {names}", options=["-W", "error"])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def test_is_light(self, fresh_script):
        """No module that costs: autoload adds ours and nothing of others."""
        code = "import sys, torch; print('\\n'.join(sys.modules))"
        plain = fresh_script(code, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        loaded = fresh_script(code)
        added = set(loaded.stdout.split()) - set(plain.stdout.split())
        assert added
        heavy = [
            n
            for n in added
            if n.split(".")[0] in ("sympy", "numpy", "functorch", "google", "grpc")
            or n.startswith(("torch._dynamo", "torch._inductor", "torch._functorch"))
        ]
        assert not heavy
        assert "torch_tvarant.compiler" not in added

    def test_starts_and_connects_nothing(self, fresh_script):
        done = fresh_script(
            """
import os
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
import torch
def children():
    return open(f"/proc/self/task/{os.getpid()}/children").read().split()
threads = os.listdir("/proc/self/task")
import torch_tvarant
print(torch_tvarant._C.endpoint() == "", torch_tvarant._C.daemon_pid(),
      torch.tvarant.is_initialized(), children(),
      len(os.listdir("/proc/self/task")) - len(threads))
"""
        )
        assert done.stdout.strip() == "True 0 False [] 0", done.stdout + done.stderr

    def test_compiler_comes_when_asked_for(self, fresh_script):
        done = fresh_script(
            """
import sys, torch_tvarant
print("torch_tvarant.compiler" in sys.modules)
torch_tvarant.compiler
print("torch_tvarant.compiler" in sys.modules)
try:
    torch_tvarant.nothing
except AttributeError as error:
    print(error)
"""
        )
        assert done.stdout.split("\n")[:2] == ["False", "True"]
        assert "nothing" in done.stdout

    def test_autoload_off(self, fresh_script):
        done = fresh_script(
            """
import torch
print(hasattr(torch, "tvarant"))
import torch_tvarant, os
print(torch.ones(2, device="tvarant").sum().item())
print(os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"])
""",
            env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        )
        assert done.stdout.split() == ["False", "2.0", "0"], done.stderr


class TestBrokenPackage:
    """A copy with a fault, found before the good one: torch still imports."""

    @pytest.fixture
    def copy(self, tmp_path: Path) -> Path:
        target = tmp_path / "torch_tvarant"
        shutil.copytree(PACKAGE, target, ignore=shutil.ignore_patterns("*.so", "bin"))
        return target

    def run(self, copy: Path, code: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(copy.parent)},
        )

    def check(self, copy: Path, *words: str) -> None:
        done = self.run(copy, "import torch; print(torch.ones(2).sum().item())")
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "2.0"
        assert "Traceback" not in done.stderr
        assert "tvarant device is not available" in done.stderr
        for word in words:
            assert word in done.stderr
        done = self.run(copy, "import torch_tvarant")
        assert done.returncode != 0 and "Traceback" in done.stderr

    def test_no_native_module(self, copy):
        self.check(copy, "_C")

    def test_unreadable_native_module(self, copy):
        (copy / "_C.so").write_bytes(b"\x7fELF nonsense")
        self.check(copy)

    def test_native_module_that_raises(self, copy):
        (copy / "_C.py").write_text("raise RuntimeError('no such card')\n")
        self.check(copy, "no such card")

    def test_built_for_another_torch(self, copy):
        (copy / "_build_info.py").write_text(
            "version, built_for_torch = '1.0.0', '1.9.1'\n"
        )
        (copy / "_C.py").write_text("")
        self.check(copy, "1.9.1", torch.__version__)


def test_dynamo_backend_needs_no_explicit_import(script):
    done = script(
        """
import torch
f = torch.compile(lambda x: x * 2 + 1, backend="tvarant")
print(f(torch.ones(2, device="tvarant")).tolist())
""",
        timeout=120,
    )
    assert done.stdout.strip() == "[3.0, 3.0]", done.stderr
