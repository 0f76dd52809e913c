"""OpenCL C sources as constants of a C++ library.

    opencl_sources(name = "sources", srcs = ["softmax.cl"])

makes `sources.h` with `inline const ClSource kSoftmaxCl`: a name and the text
of the file, between prelude and use.
"""

load(":cc.bzl", "tvarant_cc_library")

def opencl_sources(name, srcs, **kwargs):
    """Embeds .cl files; file_name.cl becomes kFileNameCl."""
    native.genrule(
        name = name + "_h",
        srcs = srcs,
        outs = [name + ".h"],
        cmd = "$(location //bazel:embed_opencl.sh) %s $(SRCS) > $@" % name,
        tools = ["//bazel:embed_opencl.sh"],
    )
    tvarant_cc_library(
        name = name,
        hdrs = [name + ".h"],
        deps = ["//daemon/jit:cl_source"],
        **kwargs
    )
