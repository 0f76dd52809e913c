"""Packs python/torch_tvarant with the built binaries into a wheel.

    wheel.py build OUT_DIR --plugin _C.so --daemon tvarantd [--ctl tvarantctl]
                                prints its path
    wheel.py installed WHEEL    exit status 0 if exactly this one is installed

Done by hand rather than with a build backend: it takes milliseconds, and the
same inputs give the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.metadata
import sys
import sysconfig
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "torch_tvarant"
NAME = "torch_tvarant"

ENTRY_POINTS = """\
[torch.backends]
torch_tvarant = torch_tvarant:_autoload

[torch_dynamo_backends]
tvarant = torch_tvarant.dynamo_backend:tvarant
"""

METADATA = """\
Metadata-Version: 2.1
Name: torch-tvarant
Version: {version}
Summary: PyTorch on the Tvarant accelerator
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: torch=={torch}
Requires-Dist: numpy
"""

WHEEL = """\
Wheel-Version: 1.0
Generator: tvarant
Root-Is-Purelib: false
Tag: {tag}
"""

BUILD_INFO = '''\
"""Written by deploy/wheel.py."""

version = "{version}"
built_for_torch = "{torch}"
'''

# Of the source tree's package, what a wheel carries.
SUFFIXES = {".py", ".pyi", ".typed", ".json"}

# Where pip puts programs into PATH from.
SCRIPTS = ".data/scripts/"


def wheel_tag() -> str:
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{python}-{python}-{platform}"


def wheel_files(
    plugin: Path,
    daemon: Path,
    libraries: Path | None = None,
    ctl: Path | None = None,
) -> dict[str, tuple[bytes, int]]:
    """Name in the archive -> (bytes, mode), without RECORD."""
    version = (ROOT / "version.txt").read_text().strip()
    torch = importlib.metadata.version("torch").partition("+")[0]
    files = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and (path.suffix in SUFFIXES or path.name == "py.typed"):
            name = path.relative_to(PACKAGE.parent).as_posix()
            files[name] = (path.read_bytes(), 0o644)
    files[f"{NAME}/_build_info.py"] = (
        BUILD_INFO.format(version=version, torch=torch).encode(),
        0o644,
    )
    files[f"{NAME}/_C.so"] = (plugin.read_bytes(), 0o755)
    files[f"{NAME}/bin/tvarantd"] = (daemon.read_bytes(), 0o755)
    for path in sorted(libraries.rglob("*.so*")) if libraries else ():
        name = path.relative_to(libraries).as_posix()
        files[f"{NAME}/lib/{name}"] = (path.read_bytes(), 0o755)
    if ctl is not None:
        files[f"{NAME}-{version}{SCRIPTS}tvarantctl"] = (ctl.read_bytes(), 0o755)
    info = f"{NAME}-{version}.dist-info"
    metadata = METADATA.format(version=version, torch=torch)
    files[f"{info}/METADATA"] = (metadata.encode(), 0o644)
    files[f"{info}/WHEEL"] = (WHEEL.format(tag=wheel_tag()).encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (ENTRY_POINTS.encode(), 0o644)
    files[f"{info}/top_level.txt"] = (f"{NAME}\n".encode(), 0o644)
    license_text = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/LICENSE"] = (license_text, 0o644)
    return files


def digest(data: bytes) -> str:
    raw = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def build(
    out_dir: Path,
    plugin: Path,
    daemon: Path,
    libraries: Path | None = None,
    ctl: Path | None = None,
) -> Path:
    """`libraries`: a bundle's, where plugin and daemon look for them."""
    files = wheel_files(plugin, daemon, libraries, ctl)
    version = (ROOT / "version.txt").read_text().strip()
    record_name = f"{NAME}-{version}.dist-info/RECORD"
    record = "".join(
        f"{name},{digest(data)},{len(data)}\n" for name, (data, _) in files.items()
    )
    files[record_name] = (f"{record}{record_name},,\n".encode(), 0o644)
    out_dir.mkdir(parents=True, exist_ok=True)
    wheel = out_dir / f"{NAME}-{version}-{wheel_tag()}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, date_time=(2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data, compresslevel=1)
    return wheel


def is_installed(wheel: Path) -> bool:
    """Whether every file of the wheel, and no other, is what is installed."""
    try:
        distribution = importlib.metadata.distribution("torch-tvarant")
    except importlib.metadata.PackageNotFoundError:
        return False
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            name: archive.read(name)
            for name in archive.namelist()
            if not name.endswith("/RECORD")
        }
    ours = {str(path) for path in distribution.files or [] if path.parts[0] == NAME}
    ours = {name for name in ours if not name.endswith(".pyc")}
    if ours != {name for name in packed if name.startswith(f"{NAME}/")}:
        return False
    for name, data in packed.items():
        _, is_script, script = name.partition(SCRIPTS)
        if is_script:
            path = Path(sysconfig.get_path("scripts"), script)
        else:
            path = Path(str(distribution.locate_file(name)))
        if not path.is_file() or path.read_bytes() != data:
            return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    build_command = commands.add_parser("build")
    build_command.add_argument("out_dir", type=Path)
    build_command.add_argument("--plugin", type=Path, required=True)
    build_command.add_argument("--daemon", type=Path, required=True)
    build_command.add_argument("--ctl", type=Path)
    installed_command = commands.add_parser("installed")
    installed_command.add_argument("wheel", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "installed":
        return 0 if is_installed(arguments.wheel) else 1
    wheel = build(
        arguments.out_dir, arguments.plugin, arguments.daemon, ctl=arguments.ctl
    )
    print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
