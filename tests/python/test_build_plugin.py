"""deploy/build_plugin.py without its long compile: what it rebuilds and refuses."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.fixture(scope="module")
def build_plugin() -> ModuleType:
    sys.path.insert(0, str(DEPLOY))
    try:
        spec = importlib.util.spec_from_file_location(
            "build_plugin", DEPLOY / "build_plugin.py"
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["build_plugin"] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(DEPLOY))


def make_unit(build_plugin: ModuleType, folder: Path, flags: list[str]):
    source, output = folder / "a.cc", folder / "out" / "a.cc.o"
    command = ["g++", *flags, "-MD", "-MF", str(output.with_suffix(".d"))]
    command += ["-c", str(source), "-o", str(output)]
    return build_plugin.Unit("a.cc", source, output, command)


@pytest.mark.skipif(shutil.which("g++") is None, reason="wants g++")
def test_only_what_changed_is_compiled(
    build_plugin: ModuleType, tmp_path: Path
) -> None:
    (tmp_path / "a.h").write_text("int f();\n")
    (tmp_path / "a.cc").write_text('#include "a.h"\nint f() { return 1; }\n')
    unit = make_unit(build_plugin, tmp_path, [])
    assert not unit.is_fresh()
    assert unit.compile() is None
    assert unit.is_fresh()
    assert not make_unit(build_plugin, tmp_path, ["-O1"]).is_fresh()
    later = unit.output.stat().st_mtime + 5
    os.utime(tmp_path / "a.h", (later, later))
    assert not unit.is_fresh()
    assert unit.compile() is None
    (tmp_path / "a.cc").write_text("int f() { return nothing; }\n")
    failure = unit.compile()
    assert failure is not None and "nothing" in failure


def test_every_source_but_the_tests(build_plugin: ModuleType) -> None:
    sources = build_plugin.plugin_sources()
    assert build_plugin.MODULE_SOURCE in sources
    assert build_plugin.KINETO_SOURCE in sources
    assert "torch_plugin/runtime/arena.cc" in sources
    assert not [name for name in sources if name.endswith("_test.cc")]


def test_an_old_torch_is_refused(
    build_plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        build_plugin.importlib.metadata, "version", lambda name: "2.10.1+cu130"
    )
    with pytest.raises(build_plugin.BuildError, match=r"2\.10\.1.*2\.11 or later"):
        build_plugin.find_torch()


def test_the_torch_that_is_here_is_found(build_plugin: ModuleType) -> None:
    root = build_plugin.find_torch()
    assert (root / "lib" / "libtorch_cpu.so").is_file()


def test_a_missing_compiler_is_named(build_plugin: ModuleType) -> None:
    with pytest.raises(build_plugin.BuildError, match="no C\\+\\+ compiler"):
        build_plugin.find_toolchain("no-such-compiler")


def test_a_folder_that_is_no_bundle(tmp_path: Path) -> None:
    done = subprocess.run(
        [DEPLOY / "build_plugin.sh", "--bundle", str(tmp_path)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "is no bundle" in done.stderr


def test_a_wheel_with_libraries(build_plugin: ModuleType, tmp_path: Path) -> None:
    libraries = tmp_path / "lib"
    (libraries / "fallback").mkdir(parents=True)
    (libraries / "libtvarant.so").write_bytes(b"a")
    (libraries / "fallback" / "libstdc++.so.6").write_bytes(b"b")
    plugin, daemon = tmp_path / "_C.so", tmp_path / "tvarantd"
    plugin.write_bytes(b"c")
    daemon.write_bytes(b"d")
    built = build_plugin.wheel.build(tmp_path / "out", plugin, daemon, libraries)
    with zipfile.ZipFile(built) as archive:
        assert archive.read("torch_tvarant/lib/libtvarant.so") == b"a"
        assert archive.read("torch_tvarant/lib/fallback/libstdc++.so.6") == b"b"
        assert archive.read("torch_tvarant/bin/tvarantd") == b"d"
