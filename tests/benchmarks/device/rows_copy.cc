// Bytes up, down and on the device. The device's own copies are what the other
// rows are compared with.

#include <cstring>
#include <memory>
#include <string>

#include "tests/benchmarks/device/suite.h"

namespace tvarant::benchmarks {
namespace {

Row TransferRow(uint64_t bytes, bool up) {
  Row row{.family = "copy",
          .name = up ? "upload" : "download",
          .dtype = DType::kUInt8,
          .sizes = {static_cast<int64_t>(bytes)},
          .peer = up ? "upload" : "download",
          .bytes = static_cast<double>(bytes),
          .memory_bytes = bytes};
  row.measure = [bytes, up](Device& device, Scope& scope, double seconds,
                            Timing* timing) {
    Tensor x;
    if (Status status =
            scope.Make(DType::kUInt8, {static_cast<int64_t>(bytes)}, &x, false);
        !status.ok()) {
      return status;
    }
    std::string host(bytes, '\1');
    return TimeTurns(
        [&](int64_t turns) {
          for (int64_t i = 0; i < turns; ++i) {
            const Status status =
                up ? device.stream()
                         .Upload(x.segment, 0, host.data(), bytes)
                         .status()
                   : device.stream().Download(x.segment, 0, host.data(), bytes);
            if (!status.ok()) return status;
          }
          return device.stream().Synchronize();
        },
        seconds, timing);
  };
  return row;
}

// The same with memory that the daemon reads and writes in place.
Row PinnedRow(uint64_t bytes, bool up) {
  Row row{.family = "copy",
          .name = up ? "upload, pinned" : "download, pinned",
          .dtype = DType::kUInt8,
          .sizes = {static_cast<int64_t>(bytes)},
          .peer = up ? "upload_pinned" : "download_pinned",
          .bytes = static_cast<double>(bytes),
          .memory_bytes = 2 * bytes};
  row.measure = [bytes, up](Device& device, Scope& scope, double seconds,
                            Timing* timing) {
    Tensor x;
    if (Status status =
            scope.Make(DType::kUInt8, {static_cast<int64_t>(bytes)}, &x, false);
        !status.ok()) {
      return status;
    }
    auto memory = device.session().CreateHostMemory(bytes);
    if (!memory.ok()) return memory.status();
    std::memset(memory.value()->data(), 1, bytes);
    return TimeTurns(
        [&](int64_t turns) {
          for (int64_t i = 0; i < turns; ++i) {
            const Status status =
                up ? device.stream()
                         .UploadFrom(x.segment, 0, *memory.value(), 0, bytes)
                         .status()
                   : device.stream().DownloadTo(x.segment, 0, *memory.value(),
                                                0, bytes);
            if (!status.ok()) return status;
          }
          return device.stream().Synchronize();
        },
        seconds, timing);
  };
  return row;
}

Row ByteCopyRow(uint64_t bytes) {
  Row row{.family = "copy",
          .name = "on the device",
          .dtype = DType::kUInt8,
          .sizes = {static_cast<int64_t>(bytes)},
          .peer = "copy",
          .bytes = 2.0 * static_cast<double>(bytes),
          .memory_bytes = 2 * bytes,
          .is_reference = true};
  row.prepare = [bytes](Device& device, Scope& scope, Turn* turn) {
    Tensor x, y;
    const int64_t size = static_cast<int64_t>(bytes);
    Status status = scope.Make(DType::kUInt8, {size}, &x);
    if (status.ok()) status = scope.Make(DType::kUInt8, {size}, &y);
    if (!status.ok()) return status;
    *turn = [&device, x, y, bytes] {
      return device.stream()
          .CopyBytes(y.segment, 0, x.segment, 0, bytes)
          .status();
    };
    return Status();
  };
  return row;
}

enum class CopyKind { kDense, kTransposed, kConverted };

Row KernelCopyRow(CopyKind kind, uint64_t array_bytes) {
  const int64_t columns = 4096;
  const int64_t n = static_cast<int64_t>(array_bytes / 4 / columns);
  const DType to =
      kind == CopyKind::kConverted ? DType::kBFloat16 : DType::kFloat32;
  Row row{.family = "copy",
          .dtype = DType::kFloat32,
          .sizes = {n, columns},
          .bytes = static_cast<double>(n * columns) *
                   static_cast<double>(4 + SizeOf(to)),
          .memory_bytes = 2 * array_bytes,
          .is_reference = kind == CopyKind::kDense};
  row.name = kind == CopyKind::kDense        ? "kernel"
             : kind == CopyKind::kTransposed ? "kernel, transposed"
                                             : "kernel, to bfloat16";
  row.peer = kind == CopyKind::kDense        ? "copy"
             : kind == CopyKind::kTransposed ? "copy_transposed"
                                             : "copy_to_bfloat16";
  row.prepare = [=](Device& device, Scope& scope, Turn* turn) {
    Tensor x, y;
    Status status = scope.Make(DType::kFloat32, {n, columns}, &x);
    if (kind == CopyKind::kTransposed) {
      if (status.ok()) status = scope.Make(to, {columns, n}, &y, false);
      x = x.Transposed(0, 1);
    } else if (status.ok()) {
      status = scope.Make(to, {n, columns}, &y, false);
    }
    if (!status.ok()) return status;
    auto launch = std::make_shared<LaunchOf>(
        Kernel::kCopy, std::vector<Tensor>{y}, std::vector<Tensor>{x});
    *turn = [&device, launch] { return device.Launch(*launch); };
    return Status();
  };
  return row;
}

}  // namespace

void AddCopyRows(const Scale& scale, std::vector<Row>* rows) {
  rows->push_back(ByteCopyRow(scale.array_bytes));
  rows->push_back(KernelCopyRow(CopyKind::kDense, scale.array_bytes));
  rows->push_back(KernelCopyRow(CopyKind::kTransposed, scale.array_bytes));
  rows->push_back(KernelCopyRow(CopyKind::kConverted, scale.array_bytes));
  for (const bool up : {true, false}) {
    for (uint64_t bytes = 4 << 10; bytes < scale.array_bytes; bytes *= 16) {
      rows->push_back(TransferRow(bytes, up));
    }
    rows->push_back(TransferRow(scale.array_bytes, up));
    for (const uint64_t bytes : {uint64_t{16} << 20, scale.array_bytes}) {
      rows->push_back(PinnedRow(bytes, up));
    }
  }
}

}  // namespace tvarant::benchmarks
