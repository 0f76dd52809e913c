"""Runs a module's ``install()`` right after another module is first imported."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType


class _Loader(importlib.abc.Loader):
    def __init__(self, loader: importlib.abc.Loader, then: str) -> None:
        self._loader = loader
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        importlib.import_module(self._then).install()

    def __getattr__(self, name: str) -> object:
        # get_source, get_code, is_package: inspect and pickle ask for them.
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self.pending: dict[str, str] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        then = self.pending.pop(fullname, None)
        if then is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        spec.loader = _Loader(spec.loader, then)
        return spec


_finder = _Finder()


def after_import(module: str, then: str) -> None:
    """Imports `then` and calls its ``install()`` once `module` is imported."""
    if module in sys.modules:
        importlib.import_module(then).install()
        return
    _finder.pending[module] = then
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
