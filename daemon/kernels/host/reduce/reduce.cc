// Reductions over any dimensions.
//
// The input is walked in the order of its memory. If neighbours share an
// output, rows of them go into one state after the other; if not, a row goes
// into as many columns of states. A reduction of few outputs is cut into
// pieces of fixed size, whose states are joined in order: the result does not
// depend on the number of threads.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "daemon/kernels/host/host_kernels.h"
#include "daemon/kernels/host/pointwise/op_table.h"
#include "daemon/kernels/host/reduce/reduce_loops.h"
#include "daemon/kernels/host/reduce/reduce_shape.h"
#include "daemon/kernels/host/reduce/reduce_state.h"

namespace tvarant::host {
namespace {

// Elements worth another thread, and of a piece of a cut reduction.
constexpr int64_t kGrain = 32 << 10;
constexpr int64_t kPiece = 64 << 10;
// Rows or blocks of columns: fewer are cut, into about so many.
constexpr int64_t kFewUnits = 16;
constexpr int64_t kManyUnits = 32;
// Elements loaded at once.
constexpr int64_t kBlock = 512;
// Columns with states at once: long enough to run along pages, not across.
constexpr int64_t kColumns = 2048;

bool IsInPlaceType(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 ||
         dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

// One launch, shared by threads.
class Reducer {
 public:
  Reducer(const HostLaunch& launch, const Reduction& reduction,
          const ReduceShape& shape)
      : src_(launch.src[0]),
        dst_(launch.dst),
        reduction_(reduction),
        shape_(shape),
        table_(GetOpTable()) {
    const int gather = static_cast<int>(reduction.gather);
    const int class_index = ClassIndex(ComputeClassOf(src_.dtype));
    row_loop_ = GetReduceTable().row[gather][class_index];
    column_loop_ = GetReduceTable().column[gather][class_index];
    rows_loop_ = GetReduceTable().rows[gather][class_index];
    load_ = table_.load[static_cast<int>(src_.dtype)];
    const int64_t stride =
        shape.by_columns ? shape.columns().src : shape.row().src;
    in_place_ = IsInPlaceType(src_.dtype) &&
                stride == static_cast<int64_t>(SizeOf(src_.dtype));
  }

  bool valid() const { return row_loop_ != nullptr; }

  absl::Status Run(ThreadPool& pool) {
    return shape_.by_columns ? RunColumns(pool) : RunRows(pool);
  }

 private:
  // Pieces of equal size that cover the reduced elements of each output.
  int64_t PieceSize(int64_t width) const {
    const int64_t count = shape_.num_reduced_elements;
    const int64_t units = (shape_.num_outputs + width - 1) / width;
    if (units >= kFewUnits || count * width < 2 * kPiece) return count;
    const int64_t pieces = (kManyUnits + units - 1) / units;
    return std::max(
        {kPiece / width, (count + pieces - 1) / pieces, int64_t{1}});
  }

  absl::Status RunRows(ThreadPool& pool) {
    const int64_t count = shape_.num_reduced_elements;
    const int64_t piece = PieceSize(1);
    if (piece >= count) {
      pool.ParallelFor(
          shape_.num_outputs,
          std::max<int64_t>(kGrain / std::max<int64_t>(count, 1), 1),
          [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
              Write(i, GatherRow(i, 0, count));
            }
          });
      return absl::OkStatus();
    }
    const int64_t pieces = (count + piece - 1) / piece;
    std::vector<ReduceState> states(shape_.num_outputs * pieces);
    pool.ParallelFor(
        shape_.num_outputs * pieces, std::max<int64_t>(kGrain / piece, 1),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t from = i % pieces * piece;
            states[i] =
                GatherRow(i / pieces, from, std::min(count, from + piece));
          }
        });
    for (int64_t i = 0; i < shape_.num_outputs; ++i) {
      ReduceState state = states[i * pieces];
      for (int64_t k = 1; k < pieces; ++k) {
        JoinStates(reduction_, states[i * pieces + k], &state);
      }
      Write(i, state);
    }
    return absl::OkStatus();
  }

  // Elements [begin, end) of one output's.
  ReduceState GatherRow(int64_t output, int64_t begin, int64_t end) const {
    ReduceState state = StartState(reduction_);
    const char* base =
        src_.data + ReduceOffset(shape_.kept, shape_.num_kept, output);
    const ReduceDim& row = shape_.row();
    alignas(64) char loaded[kBlock * 8];
    for (int64_t at = begin; at < end;) {
      const int64_t column = at % row.size;
      const int64_t n = std::min(row.size - column, end - at);
      const char* x =
          base + column * row.src +
          ReduceOffset(shape_.reduced, shape_.num_reduced - 1, at / row.size);
      if (in_place_) {
        row_loop_(&state, x, n, at, reduction_.scalar);
      } else {
        for (int64_t done = 0; done < n; done += kBlock) {
          const int64_t length = std::min(kBlock, n - done);
          load_(loaded, x + done * row.src, row.src, length);
          row_loop_(&state, loaded, length, at + done, reduction_.scalar);
        }
      }
      at += n;
    }
    return state;
  }

  absl::Status RunColumns(ThreadPool& pool) {
    const int64_t count = shape_.num_reduced_elements;
    const int64_t width = std::min(kColumns, shape_.columns().size);
    const int64_t chunks = (shape_.columns().size + width - 1) / width;
    const int64_t units = shape_.num_outputs / shape_.columns().size * chunks;
    const int64_t piece = PieceSize(width);
    if (piece >= count) {
      pool.ParallelFor(
          units,
          std::max<int64_t>(kGrain / std::max<int64_t>(count * width, 1), 1),
          [&](int64_t begin, int64_t end) {
            Columns columns;
            for (int64_t i = begin; i < end; ++i) {
              const int64_t n = GatherColumns(i, chunks, 0, count, &columns);
              for (int64_t c = 0; c < n; ++c) {
                Write(FirstOutput(i, chunks) + c, columns.Get(c));
              }
            }
          });
      return absl::OkStatus();
    }
    const int64_t pieces = (count + piece - 1) / piece;
    std::vector<ReduceState> states(units * pieces * width);
    pool.ParallelFor(
        units * pieces, std::max<int64_t>(kGrain / (piece * width), 1),
        [&](int64_t begin, int64_t end) {
          Columns columns;
          for (int64_t i = begin; i < end; ++i) {
            const int64_t from = i % pieces * piece;
            const int64_t n =
                GatherColumns(i / pieces, chunks, from,
                              std::min(count, from + piece), &columns);
            for (int64_t c = 0; c < n; ++c) {
              states[i * width + c] = columns.Get(c);
            }
          }
        });
    for (int64_t i = 0; i < units; ++i) {
      const int64_t n = ChunkWidth(i, chunks);
      for (int64_t c = 0; c < n; ++c) {
        ReduceState state = states[i * pieces * width + c];
        for (int64_t k = 1; k < pieces; ++k) {
          JoinStates(reduction_, states[(i * pieces + k) * width + c], &state);
        }
        Write(FirstOutput(i, chunks) + c, state);
      }
    }
    return absl::OkStatus();
  }

  // States of neighbouring outputs.
  struct Columns {
    alignas(64) int64_t value[kColumns];
    alignas(64) double second[kColumns];
    alignas(64) int64_t count[kColumns];

    void Fill(const ReduceState& state, int64_t n) {
      std::fill(value, value + n, state.integer);
      std::fill(second, second + n, state.second);
      std::fill(count, count + n, state.count);
    }
    ReduceState Get(int64_t i) const {
      ReduceState state;
      state.integer = value[i];  // the bits, also of a double
      state.second = second[i];
      state.count = count[i];
      return state;
    }
  };

  // Unit i is chunk i % chunks of the columns of one outer kept index.
  int64_t FirstOutput(int64_t unit, int64_t chunks) const {
    return unit / chunks * shape_.columns().size + unit % chunks * kColumns;
  }
  int64_t ChunkWidth(int64_t unit, int64_t chunks) const {
    return std::min(kColumns, shape_.columns().size - unit % chunks * kColumns);
  }

  // Rows [begin, end) into a unit's columns; returns how many columns.
  int64_t GatherColumns(int64_t unit, int64_t chunks, int64_t begin,
                        int64_t end, Columns* columns) const {
    const int64_t n = ChunkWidth(unit, chunks);
    columns->Fill(StartState(reduction_), n);
    const ReduceColumns view{columns->value, columns->second, columns->count};
    const char* base = src_.data + ReduceOffset(shape_.kept, shape_.num_kept,
                                                FirstOutput(unit, chunks));
    const int64_t stride = shape_.columns().src;
    const ReduceDim& row = shape_.row();
    alignas(64) char loaded[kColumns * 8];
    for (int64_t at = begin; at < end;) {
      const int64_t first = at % row.size;
      const int64_t rows = std::min(row.size - first, end - at);
      const char* x =
          base + first * row.src +
          ReduceOffset(shape_.reduced, shape_.num_reduced - 1, at / row.size);
      int64_t i = 0;
      if (in_place_ && rows_loop_ != nullptr) {
        for (; i + kRowsAtOnce <= rows; i += kRowsAtOnce) {
          rows_loop_(view, x, row.src, n);
          at += kRowsAtOnce;
          x += kRowsAtOnce * row.src;
        }
      }
      for (; i < rows; ++i, ++at, x += row.src) {
        const void* elements = x;
        if (!in_place_) {
          load_(loaded, x, stride, n);
          elements = loaded;
        }
        column_loop_(view, elements, n, at, at - begin + 1, reduction_.scalar);
      }
    }
    return n;
  }

  // One element from a double or an int64_t.
  void Store(const Tensor& dst, char* at, const ReduceState& value,
             bool is_integer) const {
    const ComputeClass from =
        is_integer ? ComputeClass::kI64 : ComputeClass::kF64;
    const ComputeClass to = ComputeClassOf(dst.dtype);
    int64_t converted = value.integer;
    const int64_t bits = value.integer;
    if (dst.dtype == DType::kBool) {
      table_.to_bool[ClassIndex(from)](&converted, &bits, nullptr, nullptr, 1,
                                       0);
    } else if (from != to) {
      table_.cast[ClassIndex(from)][ClassIndex(to)](&converted, &bits, nullptr,
                                                    nullptr, 1, 0);
    }
    table_.store[static_cast<int>(dst.dtype)](
        at, static_cast<int64_t>(SizeOf(dst.dtype)), &converted, 1);
  }

  void Write(int64_t output, const ReduceState& state) const {
    int64_t offsets[2] = {0, 0};
    for (int i = shape_.num_kept - 1; i >= 0; --i) {
      const int64_t index = output % shape_.kept[i].size;
      output /= shape_.kept[i].size;
      offsets[0] += index * shape_.kept[i].dst[0];
      offsets[1] += index * shape_.kept[i].dst[1];
    }
    Store(dst_[0], dst_[0].data + offsets[0], FinishState(reduction_, state),
          ResultIsInteger(reduction_));
    if (dst_.size() < 2 || !dst_[1].present()) return;
    ReduceState second;
    const bool is_index = reduction_.gather == Gather::kArgMax ||
                          reduction_.gather == Gather::kArgMin;
    if (is_index) {
      second.integer = state.count;
    } else {
      // The mean; of no elements, NaN.
      second.real =
          reduction_.num_elements > 0 ? state.real : __builtin_nan("");
    }
    Store(dst_[1], dst_[1].data + offsets[1], second, is_index);
  }

  const Tensor& src_;
  const absl::Span<const Tensor> dst_;
  const Reduction& reduction_;
  const ReduceShape& shape_;
  const OpTable& table_;
  RowLoop row_loop_ = nullptr;
  ColumnLoop column_loop_ = nullptr;
  RowsLoop rows_loop_ = nullptr;
  LoadLoop load_ = nullptr;
  bool in_place_ = false;
};

bool NeedsElements(Gather gather) {
  return gather == Gather::kMax || gather == Gather::kMin ||
         gather == Gather::kArgMax || gather == Gather::kArgMin;
}

}  // namespace

absl::Status RunReduce(const HostLaunch& launch, ThreadPool& pool) {
  const Tensor& src = launch.src[0];
  if (launch.ints.empty()) {
    return absl::InvalidArgumentError("reduce: wants the op in ints");
  }
  const int64_t code = launch.ints[0];
  const ReduceOp op = static_cast<ReduceOp>(code >= 0 && code < 256 ? code : 0);
  const Tensor* second = launch.dst.size() > 1 && launch.dst[1].present()
                             ? &launch.dst[1]
                             : nullptr;
  for (const Tensor& dst : launch.dst) {
    if (dst.present() && ComputeClassOf(dst.dtype) == ComputeClass::kNone) {
      return absl::UnimplementedError(absl::StrCat(
          "reduce: dtype ", NameOf(dst.dtype), " is not supported"));
    }
  }
  ReduceShape shape;
  Reduction reduction;
  reduction.num_elements = 0;
  const bool in_order = op == ReduceOp::kArgMax || op == ReduceOp::kArgMin ||
                        op == ReduceOp::kMaxDim || op == ReduceOp::kMinDim;
  absl::Status status =
      BuildReduceShape(src, launch.dst[0], second, in_order, &shape);
  if (!status.ok()) return status;
  if (!MakeReduction(op, ComputeClassOf(src.dtype), launch.scalar,
                     shape.num_reduced_elements, &reduction)) {
    return absl::UnimplementedError(
        absl::StrCat("reduce: no op ", code, " for dtype ", NameOf(src.dtype)));
  }
  if ((op == ReduceOp::kMaxDim || op == ReduceOp::kMinDim) &&
      second == nullptr) {
    return absl::InvalidArgumentError("reduce: wants an output for indices");
  }
  if (shape.num_outputs == 0) return absl::OkStatus();
  if (shape.num_reduced_elements == 0 && NeedsElements(reduction.gather)) {
    return absl::InvalidArgumentError(
        "reduce: the extreme of no elements does not exist");
  }
  Reducer reducer(launch, reduction, shape);
  if (!reducer.valid()) {
    return absl::UnimplementedError(
        absl::StrCat("reduce: no op ", code, " for dtype ", NameOf(src.dtype)));
  }
  return reducer.Run(pool);
}

}  // namespace tvarant::host
