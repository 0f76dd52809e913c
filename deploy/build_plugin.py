"""Builds the PyTorch plugin with the client library of a bundle, and installs it.

    build_plugin.py                       of an unpacked bundle: builds, installs
    build_plugin.py --bundle DIR          of a checkout: against that bundle
    build_plugin.py --wheel-only OUT      only leaves the wheel in OUT

For the torch (2.11 or later) of the Python that runs it. Wants g++ or clang++
with C++20 and Python.h; no Bazel, no gRPC headers, no network. A second run
compiles only what changed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import wheel

ROOT = Path(__file__).resolve().parent.parent
OLDEST_TORCH = (2, 11)
# What most files include: read once, it halves the time to compile.
COMMON_HEADER = """\
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
"""
# These want headers or macros of their own, so they are compiled without it.
KINETO_SOURCE = "torch_plugin/runtime/kineto_profiler.cc"
MODULE_SOURCE = "torch_plugin/module.cc"


class BuildError(Exception):
    """A reason to stop, in one sentence for the user."""


@dataclass(frozen=True)
class Toolchain:
    """The compiler, and where the installed torch and Python are."""

    compiler: str
    torch: Path
    python_include: Path

    def flags(self) -> list[str]:
        include = self.torch / "include"
        return [
            "-std=c++20",
            "-O2",
            "-DNDEBUG",
            "-fPIC",
            "-fvisibility=hidden",
            "-fno-omit-frame-pointer",
            "-DAT_PER_OPERATOR_HEADERS",
            f"-isystem{include}",
            f"-isystem{include}/torch/csrc/api/include",
            f"-isystem{self.python_include}",
        ]


def find_torch() -> Path:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise BuildError(f"{sys.executable} has no torch: install it first") from None
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise BuildError(f"torch is {version}, want {oldest} or later")
    # Located, not imported: the import takes seconds and may want a GPU's driver.
    distribution = importlib.metadata.distribution("torch")
    root = Path(str(distribution.locate_file("torch"))).resolve()
    if not (root / "include" / "ATen" / "ATen.h").is_file():
        raise BuildError(f"torch {version} in {root} came without its headers")
    return root


def find_toolchain(compiler: str | None) -> Toolchain:
    names = [compiler] if compiler else [os.environ.get("CXX"), "g++", "clang++"]
    paths = [shutil.which(name) for name in names if name]
    found = next(filter(None, paths), None)
    if found is None:
        raise BuildError("no C++ compiler: install g++ (11 or later) or clang++")
    python_include = Path(sysconfig.get_paths()["include"])
    if not (python_include / "Python.h").is_file():
        raise BuildError(
            f"{python_include}/Python.h is missing: install the development "
            "package of this Python (python3-dev)"
        )
    return Toolchain(found, find_torch(), python_include)


def plugin_sources() -> list[str]:
    paths = sorted((ROOT / "torch_plugin").rglob("*.cc"))
    names = [path.relative_to(ROOT).as_posix() for path in paths]
    return [name for name in names if not name.endswith("_test.cc")]


def run(command: list[str]) -> str | None:
    """None if it went well, else what the program said."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode == 0:
        return None
    return f"$ {shlex.join(command)}\n{done.stdout}"


@dataclass(frozen=True)
class Unit:
    """One file to compile."""

    name: str  # for the progress line
    source: Path
    output: Path
    command: list[str]

    def stamp(self) -> str:
        return hashlib.sha256("\0".join(self.command).encode()).hexdigest()

    def is_fresh(self) -> bool:
        """Whether it was compiled by this very command after every change."""
        stamp = self.output.with_suffix(".stamp")
        depends = self.output.with_suffix(".d")
        if not (self.output.is_file() and stamp.is_file() and depends.is_file()):
            return False
        if stamp.read_text() != self.stamp():
            return False
        built = self.output.stat().st_mtime
        rule = depends.read_text().replace("\\\n", " ").partition(":")[2]
        paths = [Path(word) for word in rule.split()]
        return all(path.is_file() and path.stat().st_mtime <= built for path in paths)

    def compile(self) -> str | None:
        self.output.parent.mkdir(parents=True, exist_ok=True)
        failure = run(self.command)
        if failure is None:
            self.output.with_suffix(".stamp").write_text(self.stamp())
        return failure


class Builder:
    """Compiles and links the plugin in one folder."""

    def __init__(self, tools: Toolchain, bundle: Path, folder: Path) -> None:
        self.tools = tools
        self.bundle = bundle
        self.folder = folder
        self.flags = [*tools.flags(), f"-I{bundle}/include", f"-I{ROOT}"]

    def unit(self, name: str, source: Path, flags: list[str]) -> Unit:
        output = self.folder / f"{name}.o"
        depends = output.with_suffix(".d")
        command = [self.tools.compiler, *self.flags, *flags]
        command += ["-MD", "-MF", str(depends), "-c", str(source), "-o", str(output)]
        return Unit(name, source, output, command)

    def common_header(self) -> Unit:
        header = self.folder / "common.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        if not header.is_file() or header.read_text() != COMMON_HEADER:
            header.write_text(COMMON_HEADER)
        output = self.folder / "common.h.gch"
        command = [self.tools.compiler, *self.flags, "-x", "c++-header"]
        command += ["-MD", "-MF", str(output.with_suffix(".d"))]
        command += [str(header), "-o", str(output)]
        return Unit("common header", header, output, command)

    def units(self, version_flag: str) -> Iterator[Unit]:
        include = self.tools.torch / "include"
        for name in plugin_sources():
            flags = ["-include", str(self.folder / "common.h")]
            if name == KINETO_SOURCE:
                flags = ["-DUSE_KINETO", "-DFMT_HEADER_ONLY"]
                flags.append(f"-isystem{include}/kineto")
            elif name == MODULE_SOURCE:
                flags = []
            yield self.unit(name, ROOT / name, [*flags, version_flag])

    def compile_all(
        self, units: list[Unit], jobs: int, keep_going: bool = False
    ) -> None:
        stale = [unit for unit in units if not unit.is_fresh()]
        start = time.monotonic()
        failures = []
        with ThreadPoolExecutor(jobs) as pool:
            running = {pool.submit(unit.compile): unit for unit in stale}
            for done, future in enumerate(as_completed(running), 1):
                failure = future.result()
                if failure is not None:
                    failures.append(f"{running[future].name} failed:\n{failure}")
                    if not keep_going:
                        pool.shutdown(cancel_futures=True)
                        break
                head = f"[{done}/{len(stale)}] {time.monotonic() - start:4.0f} s"
                progress(head, running[future].name)
        if failures:
            raise BuildError("\n".join(failures))
        if stale:
            progress(f"[{len(stale)}/{len(stale)}]", "compiled\n")

    def link(self, units: list[Unit]) -> Path:
        torch_lib = self.tools.torch / "lib"
        output = self.folder / "_C.so"
        command = [self.tools.compiler, "-shared", "-o", str(output)]
        command += [str(unit.output) for unit in units]
        command += [f"-L{self.bundle}/lib", "-ltvarant", f"-L{torch_lib}"]
        command += ["-Wl,--push-state,--as-needed"]
        command += ["-ltorch_python", "-ltorch", "-ltorch_cpu", "-lc10"]
        # Every symbol is looked for at import: a torch that lacks one is
        # noticed then, not in the middle of a program.
        command += ["-Wl,--pop-state", "-Wl,-z,now", "-Wl,-rpath,$ORIGIN/lib"]
        # torch's own libraries of other vendors are not needed to link.
        command += ["-Wl,--allow-shlib-undefined", "-Wl,--strip-debug"]
        failure = run(command)
        if failure is not None:
            raise BuildError(f"linking failed:\n{failure}")
        return output

    def build(self, jobs: int, keep_going: bool) -> Path:
        torch_version = importlib.metadata.version("torch")
        common = self.common_header()
        if "clang" not in Path(self.tools.compiler).name:
            progress("", "common header")
            self.compile_all([common], 1)
        version_flag = f'-DTVARANT_TORCH_VERSION="{torch_version}"'
        units = list(self.units(version_flag))
        self.compile_all(units, jobs, keep_going)
        return self.link(units)


def progress(head: str, text: str) -> None:
    """One line that is written over where somebody watches."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{head} {text}")
    else:
        sys.stderr.write(f"{head} {text.rstrip()}\n")
    sys.stderr.flush()


def install(built: Path) -> None:
    failure = run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        + ["--disable-pip-version-check", "--root-user-action=ignore"]
        + ["--no-index", "--force-reinstall", str(built)]
    )
    if failure is not None:
        raise BuildError(f"pip could not install {built}:\n{failure}")
    failure = run([sys.executable, "-c", "import torch_tvarant"])
    if failure is not None:
        raise BuildError(f"the plugin does not import:\n{failure}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, default=ROOT.parent)
    parser.add_argument("--build-dir", type=Path, help="default: build/plugin")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep-going", action="store_true", help="after a failure")
    parser.add_argument("--compiler", help="default: $CXX, else g++, else clang++")
    parser.add_argument("--wheel-only", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    bundle = arguments.bundle.resolve()
    try:
        if not (bundle / "lib" / "libtvarant.so").is_file():
            raise BuildError(f"{bundle} is no bundle: it has no lib/libtvarant.so")
        tools = find_toolchain(arguments.compiler)
        version = importlib.metadata.version("torch")
        print(f"plugin for torch {version} with {tools.compiler}", flush=True)
        folder = arguments.build_dir or ROOT / "build" / "plugin"
        folder = folder.resolve() / f"torch-{version}"
        builder = Builder(tools, bundle, folder)
        plugin = builder.build(max(1, arguments.jobs), arguments.keep_going)
        out = arguments.wheel_only or folder / "wheel"
        built = wheel.build(out, plugin, bundle / "bin" / "tvarantd", bundle / "lib")
        print(f"wheel {built}", flush=True)
        if arguments.wheel_only is None:
            install(built)
            print(f"installed for {sys.executable}")
    except BuildError as error:
        print(f"build_plugin: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
