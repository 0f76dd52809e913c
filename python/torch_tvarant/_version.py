"""Version of the package and of the PyTorch it was built for.

``deploy/build.sh`` writes ``_build_info.py`` into the wheel; the version itself
stands in ``version.txt`` at the root of the repository alone.
"""

from __future__ import annotations

try:
    from torch_tvarant._build_info import built_for_torch, version
except ImportError:  # an unbuilt source tree
    version, built_for_torch = "0+unbuilt", ""

__version__ = version
__all__ = ["__version__", "built_for_torch"]
