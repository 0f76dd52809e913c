"""Libraries of the system (Debian 12 packages) as Bazel repositories.

    @grpc//:grpc++            @grpc//:grpc++_reflection
    @protobuf//:protobuf      @absl//:<name>, for each name in _ABSL
    @spdlog//:spdlog          @opencl//:opencl
    @sleef//:sleef
    @gtest//:gtest            @gtest//:gtest_main    (both with gmock)
    @benchmark//:benchmark    @benchmark//:benchmark_main
    @prometheus//:prometheus  @cli11//:cli11
    @numa//:numa              (optional: empty where it is not installed)

A found optional library defines TVARANT_HAVE_<NAME>=1. A missing required one
fails the build of what uses it, with one line that says what to install, and
leaves every other target alone.
"""

_ABSL = [
    "algorithm_container",
    "any_invocable",
    "base",
    "bind_front",
    "bits",
    "cleanup",
    "cord",
    "core_headers",
    "failure_signal_handler",
    "fixed_array",
    "flags",
    "flags_parse",
    "flags_reflection",
    "flags_usage",
    "flat_hash_map",
    "flat_hash_set",
    "function_ref",
    "hash",
    "inlined_vector",
    "int128",
    "memory",
    "node_hash_map",
    "node_hash_set",
    "optional",
    "random_random",
    "span",
    "stacktrace",
    "status",
    "statusor",
    "str_format",
    "strings",
    "symbolize",
    "synchronization",
    "time",
    "type_traits",
    "utility",
    "variant",
]

_LIBRARY = """
cc_library(
    name = "{name}",
    defines = {defines},
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
)
"""

# Loads and analyses; building it prints the reason and fails.
_MISSING = """
genrule(
    name = "{name}_missing",
    outs = ["{name}_missing.h"],
    cmd = "echo '{reason}' >&2; exit 1",
)

cc_library(
    name = "{name}",
    hdrs = [":{name}_missing"],
    visibility = ["//visibility:public"],
)
"""

def missing_library(name, reason):
    return _MISSING.format(name = name, reason = reason)

def _unique(words):
    return {word: None for word in words}.keys()

def _as_needed(libs):
    # Names what a binary really uses as NEEDED, not the whole closure.
    return ["-Wl,--push-state,--as-needed"] + libs + ["-Wl,--pop-state"]

def _flags(ctx, pkg):
    """The defines and link flags of a pkg-config package, or None."""
    found = ctx.execute(["pkg-config", "--cflags", "--libs", pkg])
    if found.return_code != 0:
        return None
    words = [w for w in found.stdout.replace("\n", " ").split(" ") if w]
    defines = [w[2:] for w in words if w.startswith("-D")]
    libs = [
        w
        for w in words
        if w.startswith("-l") or w.startswith("-L") or w == "-pthread"
    ]
    return _unique(defines), _unique(libs)

def _library(ctx, name, spec):
    """BUILD text for one target; spec: see system_library.targets."""
    words = spec.split(" ")
    if words[0] == "-":
        # No .pc file: a header to look for, then the link flags.
        found = ctx.path("/usr/include/" + words[1]).exists
        flags = ([], words[2:]) if found else None
    else:
        flags = _flags(ctx, words[0])
        if flags:
            flags = (flags[0], flags[1] + words[1:])
    if flags:
        defines = list(flags[0])
        if ctx.attr.optional:
            defines.append("TVARANT_HAVE_%s=1" % ctx.name.upper())
        return _LIBRARY.format(
            name = name,
            defines = repr(defines + ctx.attr.extra_defines),
            linkopts = repr(_as_needed(flags[1])),
        )
    if ctx.attr.optional:
        return _LIBRARY.format(name = name, defines = "[]", linkopts = "[]")
    return missing_library(
        name,
        "%s is not installed: apt install %s, or run deploy/install_deps.sh" %
        (name, ctx.attr.debian),
    )

def _system_library_impl(ctx):
    ctx.file("BUILD.bazel", "\n".join([
        _library(ctx, name, spec)
        for name, spec in ctx.attr.targets.items()
    ]))

system_library = repository_rule(
    implementation = _system_library_impl,
    local = True,
    attrs = {
        "targets": attr.string_dict(
            doc = "target name -> 'pkg-config-name [more link flags]', or " +
                  "'- header.h link flags' where there is no .pc file",
        ),
        "debian": attr.string(doc = "the Debian package, for the message"),
        "optional": attr.bool(),
        "extra_defines": attr.string_list(),
    },
)

def system_libraries():
    """Declares every library of the table above."""
    system_library(
        name = "absl",
        targets = {name: "absl_" + name for name in _ABSL},
        debian = "libabsl-dev",
    )
    system_library(
        name = "benchmark",
        targets = {
            "benchmark": "benchmark",
            "benchmark_main": "benchmark -lbenchmark_main",
        },
        debian = "libbenchmark-dev",
    )
    system_library(
        name = "cli11",
        targets = {"cli11": "CLI11"},
        debian = "libcli11-dev",
    )
    system_library(
        name = "crypto",
        targets = {"crypto": "libcrypto"},
        debian = "libssl-dev",
    )
    system_library(
        name = "grpc",
        targets = {
            "grpc++": "grpc++",
            "grpc++_reflection": "grpc++ -lgrpc++_reflection",
        },
        debian = "libgrpc++-dev",
    )
    system_library(
        name = "gtest",
        targets = {
            "gtest": "gmock",
            "gtest_main": "gmock_main",
        },
        debian = "libgmock-dev",
    )
    system_library(
        name = "numa",
        targets = {"numa": "numa"},
        optional = True,
    )
    system_library(
        name = "opencl",
        targets = {"opencl": "OpenCL"},
        debian = "ocl-icd-opencl-dev",
        extra_defines = ["CL_TARGET_OPENCL_VERSION=300"],
    )
    system_library(
        name = "prometheus",
        targets = {"prometheus": "prometheus-cpp-pull"},
        debian = "prometheus-cpp-dev",
    )
    system_library(
        name = "protobuf",
        targets = {"protobuf": "protobuf"},
        debian = "libprotobuf-dev",
    )
    system_library(
        name = "sleef",
        targets = {"sleef": "sleef"},
        debian = "libsleef-dev",
    )
    system_library(
        name = "spdlog",
        targets = {"spdlog": "spdlog"},
        debian = "libspdlog-dev",
    )
