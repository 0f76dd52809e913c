"""Makes PyTorch know the device: name, module, methods, hooks into Python."""

from __future__ import annotations

import atexit
import os
import re
import sys

import torch

NAME = "tvarant"
_registered = False


def _check_torch_version(built_for: str) -> None:
    """The plugin uses PyTorch's C++ interface, which changes with each minor."""

    def minor(version: str) -> str:
        match = re.match(r"(\d+)\.(\d+)", version)
        return ".".join(match.groups()) if match else version

    if built_for and minor(built_for) != minor(torch.__version__):
        raise ImportError(
            f"torch_tvarant was built for torch {built_for}, but torch "
            f"{torch.__version__} is installed; rebuild it or install torch "
            f"{minor(built_for)}"
        )


def _daemon_path() -> str:
    """The tvarantd that the wheel brings; empty if there is none."""
    path = os.path.join(os.path.dirname(__file__), "bin", "tvarantd")
    return path if os.path.exists(path) else ""


def register() -> None:
    """Registers the device once per process. Starts and connects nothing."""
    global _registered
    if _registered:
        return
    from torch_tvarant import _version

    _check_torch_version(_version.built_for_torch)
    from torch_tvarant import _C

    _C._set_daemon_path(_daemon_path())
    torch.utils.rename_privateuse1_backend(NAME)
    from torch_tvarant import tvarant

    torch._register_device_module(NAME, tvarant)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True,
        for_module=True,
        for_packed_sequence=True,
        for_storage=True,
        unsupported_dtype=[
            torch.quint8,
            torch.quint4x2,
            torch.quint2x4,
            torch.qint32,
            torch.qint8,
        ],
    )
    from torch_tvarant import _repr, _sharing

    _repr.install()
    _sharing.install()
    _set_checkpoint_device()
    _register_lazily_with_dynamo()
    # An autograd thread that wakes while the interpreter finalises aborts the
    # process; give such threads a moment to go to sleep.
    atexit.register(_C._wait_for_autograd_threads, 100)
    _registered = True


def _set_checkpoint_device() -> None:
    # torch.utils.checkpoint falls back to "cuda" when it sees no device tensor.
    # Importing it is cheap only when something else has done so already.
    module = sys.modules.get("torch.utils.checkpoint")
    if module is not None and not torch.cuda.is_available():
        module.DefaultDeviceType.set_device_type(NAME)


def _register_lazily_with_dynamo() -> None:
    """Anything of dynamo costs over a second: wait until it is imported."""
    from torch_tvarant import _import_hook

    _import_hook.after_import(
        "torch._dynamo.device_interface", "torch_tvarant._dynamo_device"
    )
    _import_hook.after_import(
        "torch._inductor.compile_fx", "torch_tvarant._inductor_redirect"
    )
