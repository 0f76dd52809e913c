"""PyTorch on ``torch.device("tvarant")``.

Importing this package registers the device; with the entry point that the
wheel installs, ``import torch`` alone does it too. Nothing is started until the
device is first used.

Example::

    import torch
    x = torch.randn(4, 4, device="tvarant")
    print((x @ x).relu())
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

    from torch_tvarant import compiler as compiler

_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"


def _import_torch() -> ModuleType:
    """Imports torch without letting it load this package a second time."""
    previous = os.environ.get(_AUTOLOAD)
    os.environ[_AUTOLOAD] = "0"
    try:
        return importlib.import_module("torch")
    finally:
        if previous is None:
            del os.environ[_AUTOLOAD]
        else:
            os.environ[_AUTOLOAD] = previous


def _called_by_torch_autoload() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_import_device_backends":
            return True
        frame = frame.f_back
    return False


def _warn_not_loaded(error: BaseException) -> None:
    sys.stderr.write(
        f"torch_tvarant: the tvarant device is not available: {error}\n"
        f"torch_tvarant: set {_AUTOLOAD}=0 to silence this, or run "
        '`python -c "import torch_tvarant"` for the whole error.\n'
    )


def _autoload() -> None:
    """Entry point of ``torch.backends``: importing the package did the work."""


try:
    _import_torch()
    from torch_tvarant import _register
    from torch_tvarant._version import __version__

    _register.register()
    from torch_tvarant import _C, tvarant
except Exception as error:
    # An exception here would make `import torch` fail for every program of the
    # environment, also for those that never use the device.
    if not _called_by_torch_autoload():
        raise
    _warn_not_loaded(error)

_LAZY = ("compiler", "dynamo_backend")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"torch_tvarant.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["_C", "__version__", "compiler", "tvarant"]
