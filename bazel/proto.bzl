"""C++ from .proto files, with the system's protoc."""

def tvarant_proto_library(name, src, grpc = False, deps = [], **kwargs):
    """A cc_library of the messages (and services) of one .proto file.

    In proto/tvarant/v1/BUILD.bazel

        tvarant_proto_library(name = "device_proto", src = "device.proto",
                              grpc = True)

    gives "proto/tvarant/v1/device.pb.h" and "…/device.grpc.pb.h". Imports are
    written from the workspace root: import "proto/tvarant/v1/device.proto".

    Args:
      name: the cc_library.
      src: the .proto file, in this package.
      grpc: also generate the services.
      deps: tvarant_proto_library targets of the files that src imports.
      **kwargs: passed to cc_library.
    """
    stem = src[:-len(".proto")]
    hdrs = [stem + ".pb.h"]
    srcs = [stem + ".pb.cc"]
    options = ""
    if grpc:
        hdrs.append(stem + ".grpc.pb.h")
        srcs.append(stem + ".grpc.pb.cc")
        options = ("--plugin=protoc-gen-grpc=$$(command -v grpc_cpp_plugin) " +
                   "--grpc_out=$(BINDIR) ")
    visibility = kwargs.get("visibility")

    native.filegroup(
        name = name + "_src",
        srcs = [src],
        visibility = visibility,
    )
    native.genrule(
        name = name + "_gen",
        srcs = [src] + [dep + "_src" for dep in deps],
        outs = hdrs + srcs,
        cmd = ("protoc --proto_path=. --cpp_out=$(BINDIR) " + options +
               "$(location %s)" % src),
        message = "Generating C++ for " + src,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        # Generated: its warnings are not ours to fix.
        copts = ["-w"],
        linkstatic = True,
        deps = deps + ["@protobuf//:protobuf"] +
               (["@grpc//:grpc++"] if grpc else []),
        **kwargs
    )
