"""Our C++ rules: the native ones with the project's warnings as errors.

    tvarant_cc_library, tvarant_cc_binary, tvarant_cc_test: as cc_*
    tvarant_cc_benchmark: a Google Benchmark program, and a short run as a test
    tvarant_fuzz_test: a libFuzzer target, also run on its corpus as a test
    tvarant_simd_library: the same sources compiled once per instruction set
    tvarant_torch_library, tvarant_plugin: what includes torch headers
"""

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
]

def tvarant_cc_library(name, copts = [], **kwargs):
    native.cc_library(
        name = name,
        copts = _COPTS + copts,
        linkstatic = True,
        **kwargs
    )

def tvarant_cc_binary(name, copts = [], **kwargs):
    native.cc_binary(
        name = name,
        copts = _COPTS + copts,
        **kwargs
    )

def tvarant_cc_test(name, copts = [], deps = [], size = "small", **kwargs):
    """A GoogleTest program; gtest, gmock and main() come with it."""
    native.cc_test(
        name = name,
        copts = _COPTS + copts,
        linkstatic = True,
        size = size,
        deps = deps + ["@gtest//:gtest_main"],
        **kwargs
    )

def tvarant_cc_benchmark(name, copts = [], deps = [], tags = [], **kwargs):
    """A Google Benchmark program; as a test each case runs a few times."""
    native.cc_test(
        name = name,
        copts = _COPTS + copts,
        linkstatic = True,
        args = ["--benchmark_min_time=0.001"],
        tags = tags + ["benchmark", "no_sanitizer"],
        deps = deps + ["@benchmark//:benchmark_main"],
        **kwargs
    )

def tvarant_fuzz_test(name, copts = [], linkopts = [], deps = [], **kwargs):
    """LLVMFuzzerTestOneInput in srcs.

    Plain builds drive it with a fixed number of pseudo-random inputs, as a
    test; `bazel run --config=fuzz` makes it a libFuzzer program.
    """
    native.cc_test(
        name = name,
        copts = _COPTS + copts,
        linkstatic = True,
        linkopts = linkopts + select({
            "//bazel:fuzz": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        deps = deps + select({
            "//bazel:fuzz": [],
            "//conditions:default": ["//bazel:fuzz_main"],
        }),
        **kwargs
    )

_SIMD_COPTS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    # The same result on every instruction set: fuse only where written.
    "-ffp-contract=off",
]

_AVX2 = ["-mavx2", "-mfma", "-mf16c", "-mbmi2"]

_ISAS = {
    "baseline": [],
    "avx2": _AVX2,
    "avx512": [
        "-mavx512f",
        "-mavx512bw",
        "-mavx512dq",
        "-mavx512vl",
        "-mprefer-vector-width=512",
    ] + _AVX2,
}

def tvarant_simd_library(
        name,
        srcs,
        hdrs = [],
        textual_hdrs = [],
        deps = [],
        copts = [],
        **kwargs):
    """One cc_library holding srcs compiled once per instruction set.

    Each source puts its code in `namespace TVARANT_ISA`, a macro that is
    baseline, avx2 or avx512; avx2 and avx512 exist on x86-64 only. The caller
    picks one at run time:

        // add.cc
        namespace tvarant::host::TVARANT_ISA {
        void Add(const float* a, const float* b, float* dst, int64_t n) {…}
        }

    A function that two objects both define is linked once, so an AVX-512 copy
    of std::vector could end up in code for every CPU. `<name>_odr_test` fails
    when a wide object defines a weak function outside of its own namespace.

    Args:
      name: the joined cc_library.
      srcs: compiled once per instruction set.
      hdrs: public headers; they must not depend on TVARANT_ISA.
      textual_hdrs: headers that are included under TVARANT_ISA.
      deps: libraries that the sources use.
      copts: more flags.
      **kwargs: visibility, testonly, tags.
    """
    for isa, flags in _ISAS.items():
        native.cc_library(
            name = name + "_" + isa,
            srcs = srcs,
            hdrs = hdrs,
            textual_hdrs = textual_hdrs,
            copts = _COPTS + copts + _SIMD_COPTS + flags,
            local_defines = ["TVARANT_ISA=" + isa],
            linkstatic = True,
            deps = deps,
            visibility = ["//visibility:private"],
            testonly = kwargs.get("testonly", False),
            tags = ["manual"],
        )
    wide = [":%s_%s" % (name, isa) for isa in _ISAS if isa != "baseline"]
    native.cc_library(
        name = name,
        hdrs = hdrs,
        deps = deps + [":" + name + "_baseline"] + select({
            "//bazel:x86_64": wide,
            "//conditions:default": [],
        }),
        **kwargs
    )
    native.filegroup(
        name = name + "_wide_objects",
        srcs = wide,
        output_group = "compilation_outputs",
        testonly = kwargs.get("testonly", False),
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    native.sh_test(
        name = name + "_odr_test",
        size = "small",
        srcs = ["//bazel:simd_odr_test.sh"],
        args = ["$(locations :%s_wide_objects)" % name],
        data = [":%s_wide_objects" % name],
        tags = ["no_sanitizer"],
    )

# A type that holds a pybind11 object has hidden visibility, so must its users.
_TORCH_COPTS = [
    "-fvisibility=hidden",
    # Headers of one operator each, where a file asks for them: all of them
    # together cost ten seconds a file.
    "-DAT_PER_OPERATOR_HEADERS",
    # Boxed kernels and overrides name parameters that they do not use.
    "-Wno-unused-parameter",
]

def tvarant_torch_library(name, copts = [], deps = [], **kwargs):
    """A library that includes torch headers; its registrations always link."""
    native.cc_library(
        name = name,
        copts = _COPTS + _TORCH_COPTS + copts,
        linkstatic = True,
        alwayslink = True,
        deps = deps + ["@torch//:torch"],
        **kwargs
    )

def tvarant_plugin(
        name,
        srcs = [],
        copts = [],
        deps = [],
        **kwargs):
    """A Python extension that links to the torch wheel, e.g. name "_C.so"."""
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = _COPTS + _TORCH_COPTS + copts,
        linkshared = True,
        deps = deps + ["@torch//:torch"],
        **kwargs
    )
