"""The Python interpreter and the torch wheel installed in it.

    @python//:headers   Python.h
    @torch//:torch      headers and libraries of the wheel, with Python.h

The interpreter is $PYTHON_BIN, else .venv/bin/python of the workspace, else
python3: the same choice as deploy/python_env.sh. Where torch is missing, only
what uses @torch//:torch fails to build.
"""

load(":system_libraries.bzl", "missing_library")

def _python(ctx):
    """Path of the interpreter, as a string, or None."""
    given = ctx.os.environ.get("PYTHON_BIN")
    if given:
        return given
    venv = ctx.path(Label("//:WORKSPACE")).dirname.get_child(".venv")
    python = venv.get_child("bin").get_child("python")
    if python.exists:
        return str(python)
    python3 = ctx.which("python3")
    return str(python3) if python3 else None

def _ask(ctx, code):
    """What the interpreter prints for `code`, or None if it fails."""
    python = _python(ctx)
    if not python:
        return None
    answer = ctx.execute([python, "-c", code])
    return answer.stdout.strip() if answer.return_code == 0 else None

def _python_impl(ctx):
    include = _ask(
        ctx,
        "import sysconfig; print(sysconfig.get_paths()['include'])",
    )
    if not include or not ctx.path(include + "/Python.h").exists:
        ctx.file("BUILD.bazel", missing_library(
            "headers",
            "Python.h is not installed: apt install python3-dev",
        ))
        return
    ctx.symlink(include, "include")
    ctx.file("BUILD.bazel", """
cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    includes = ["include"],
    visibility = ["//visibility:public"],
)
""")

python_repository = repository_rule(
    implementation = _python_impl,
    configure = True,
    local = True,
    environ = ["PYTHON_BIN"],
)

# find_spec, since `import torch` would cost seconds.
_FIND_TORCH = """
import importlib.metadata, importlib.util, os
print(os.path.dirname(importlib.util.find_spec('torch').origin))
print(importlib.metadata.version('torch'))
"""

# The wheel also holds another protobuf, fmt, sleef and more, which would hide
# the system's from every file that includes torch.
_TORCH_INCLUDE = [
    "ATen",
    "c10",
    "caffe2",
    "pybind11",
    "torch",
]

# Only for the file that talks to PyTorch's profiler.
_KINETO_INCLUDE = ["fmt", "kineto"]

_TORCH = """
cc_library(
    name = "torch",
    hdrs = glob(["include/**/*.h", "include/**/*.hpp"]),
    defines = ["TVARANT_TORCH_VERSION=\\\\\\"{version}\\\\\\""],
    includes = [
        "include",
        "include/torch/csrc/api/include",
    ],
    # By soname and with no rpath: at run time the plugin binds to the copies
    # that `import torch` has already loaded.
    linkopts = [
        "-L{root}/lib",
        "-Wl,--push-state,--as-needed",
        "-ltorch_python",
        "-ltorch",
        "-ltorch_cpu",
        "-lc10",
        "-Wl,--pop-state",
    ],
    visibility = ["//visibility:public"],
    deps = ["@python//:headers"],
)

cc_library(
    name = "kineto",
    hdrs = glob(["kineto_include/**/*.h"]),
    includes = ["kineto_include", "kineto_include/kineto"],
    visibility = ["//visibility:public"],
    deps = [":torch"],
)
"""

def _torch_impl(ctx):
    found = _ask(ctx, _FIND_TORCH)
    if not found:
        ctx.file("BUILD.bazel", missing_library(
            "torch",
            "torch is not installed for %s: run deploy/install_deps.sh" %
            _python(ctx),
        ))
        return
    root, version = found.splitlines()
    for entry in ctx.path(root + "/include").readdir():
        if entry.basename in _TORCH_INCLUDE:
            ctx.symlink(entry, "include/" + entry.basename)
        if entry.basename in _KINETO_INCLUDE:
            ctx.symlink(entry, "kineto_include/" + entry.basename)
    ctx.file("BUILD.bazel", _TORCH.format(root = root, version = version))

torch_repository = repository_rule(
    implementation = _torch_impl,
    configure = True,
    local = True,
    environ = ["PYTHON_BIN"],
)
