// Runs a plan over a range of elements, block by block.

#include <algorithm>
#include <cstring>

#include "daemon/kernels/host/pointwise/plan.h"
#include "daemon/kernels/host/scratch.h"

namespace tvarant::host {
namespace {

// A position in the walk: coordinates and, per operand, where its row starts.
class Cursor {
 public:
  Cursor(const Layout& layout, int64_t element) : layout_(layout) {
    const int last = layout.rank - 1;
    column_ = element % layout.sizes[last];
    int64_t rest = element / layout.sizes[last];
    for (int dim = last - 1; dim >= 0; --dim) {
      index_[dim] = rest % layout.sizes[dim];
      rest /= layout.sizes[dim];
    }
  }

  int64_t column() const { return column_; }
  void set_column(int64_t column) { column_ = column; }

  int64_t RowOffset(const OperandLayout& operand) const {
    int64_t offset = 0;
    for (int dim = layout_.rank - 2; dim >= 0; --dim) {
      offset += index_[dim] * operand.strides[dim];
    }
    return offset;
  }

  // To the next row; wraps at the end.
  void NextRow() {
    column_ = 0;
    for (int dim = layout_.rank - 2; dim >= 0; --dim) {
      if (++index_[dim] < layout_.sizes[dim]) return;
      index_[dim] = 0;
    }
  }

  // As NextRow, and moves `offset`, the operand's RowOffset, along.
  void NextRow(const OperandLayout& operand, int64_t* offset) {
    column_ = 0;
    for (int dim = layout_.rank - 2; dim >= 0; --dim) {
      *offset += operand.strides[dim];
      if (++index_[dim] < layout_.sizes[dim]) return;
      index_[dim] = 0;
      *offset -= layout_.sizes[dim] * operand.strides[dim];
    }
  }

 private:
  const Layout& layout_;
  int64_t column_;
  int64_t index_[kMaxRank];
};

// Calls body(address, done, count) for the pieces of rows that the next
// `length` elements of an operand consist of.
template <typename Body>
void ForEachPiece(const Layout& layout, const OperandLayout& operand,
                  Cursor cursor, int64_t length, const Body& body) {
  int64_t row = cursor.RowOffset(operand);
  for (int64_t done = 0; done < length;) {
    const int64_t count =
        std::min(layout.inner_size() - cursor.column(), length - done);
    body(operand.data + row + cursor.column() * operand.inner_stride, done,
         count);
    done += count;
    if (done < length) cursor.NextRow(operand, &row);
  }
}

class Runner {
 public:
  Runner(const Plan& plan, const Layout& layout,
         std::atomic<bool>* zero_division)
      : plan_(plan), layout_(layout), zero_division_(zero_division) {}

  bool Run(int64_t begin, int64_t end) {
    block_ = std::min(plan_.block, end - begin);
    if (plan_.num_registers > 0) {
      const int64_t bytes = (block_ * 8 + 63) / 64 * 64;
      char* registers =
          Scratch(static_cast<size_t>(bytes) * plan_.num_registers);
      if (registers == nullptr) return false;
      for (int i = 0; i < plan_.num_registers; ++i) {
        places_[kFirstRegister + i] = registers + i * bytes;
      }
    }
    RunSetup();
    if (layout_.by_rows) {
      RunRows(begin, end);
    } else {
      RunTiles(begin, end);
    }
    return true;
  }

 private:
  void RunSetup() {
    for (int i = 0; i < plan_.num_setup; ++i) {
      const Step& step = plan_.setup[i];
      if (step.kind == Step::kLoad) {
        step.load(places_[step.dst], layout_.operands[step.a].data, 0, block_);
      } else if (step.kind == Step::kSplat4) {
        auto* values = reinterpret_cast<uint32_t*>(places_[step.dst]);
        std::fill(values, values + block_,
                  static_cast<uint32_t>(step.immediate));
      } else if (step.kind == Step::kSplat8) {
        auto* values = reinterpret_cast<uint64_t*>(places_[step.dst]);
        std::fill(values, values + block_, step.immediate);
      } else {
        RunOp(step, block_);
      }
    }
  }

  void RunOp(const Step& step, int64_t length) {
    step.op(places_[step.dst], places_[step.a], places_[step.b],
            places_[step.c], length, step.immediate);
  }

  // The body on one block. load and store do those of its steps.
  template <typename Load, typename Store>
  void RunBody(int64_t length, const Load& load, const Store& store) {
    for (int i = 0; i < plan_.num_body; ++i) {
      const Step& step = plan_.body[i];
      switch (step.kind) {
        case Step::kOp:
          RunOp(step, length);
          break;
        case Step::kLoad:
          load(step);
          break;
        case Step::kStore:
          store(step);
          break;
        default:
          if (step.any_zero(places_[step.a], length)) {
            zero_division_->store(true, std::memory_order_relaxed);
          }
          break;
      }
    }
  }

  void RunRows(int64_t begin, int64_t end) {
    Cursor cursor(layout_, begin);
    for (int64_t at = begin; at < end; cursor.NextRow()) {
      const int64_t row_end =
          std::min(end, at + layout_.inner_size() - cursor.column());
      while (at < row_end) {
        const int64_t length = std::min(block_, row_end - at);
        const auto address = [&](int place) {
          const OperandLayout& operand = layout_.operands[place];
          return operand.data + cursor.RowOffset(operand) +
                 cursor.column() * operand.inner_stride;
        };
        for (int i = 0; i < plan_.num_in_place; ++i) {
          places_[plan_.in_place[i]] = address(plan_.in_place[i]);
        }
        RunBody(
            length,
            [&](const Step& step) {
              step.load(places_[step.dst], address(step.a),
                        layout_.operands[step.a].inner_stride, length);
            },
            [&](const Step& step) {
              step.store(address(step.dst),
                         layout_.operands[step.dst].inner_stride,
                         places_[step.a], length);
            });
        at += length;
        cursor.set_column(cursor.column() + length);
      }
    }
  }

  void RunTiles(int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const int64_t length = std::min(block_, end - at);
      const Cursor cursor(layout_, at);
      for (int i = 0; i < plan_.num_in_place; ++i) {
        const OperandLayout& operand = layout_.operands[plan_.in_place[i]];
        places_[plan_.in_place[i]] = operand.data + at * operand.element_bytes;
      }
      RunBody(
          length,
          [&](const Step& step) {
            const OperandLayout& operand = layout_.operands[step.a];
            if (operand.dense) {
              step.load(places_[step.dst],
                        operand.data + at * operand.element_bytes,
                        operand.element_bytes, length);
              return;
            }
            ForEachPiece(layout_, operand, cursor, length,
                         [&](char* from, int64_t done, int64_t count) {
                           step.load(
                               places_[step.dst] + done * step.register_bytes,
                               from, operand.inner_stride, count);
                         });
          },
          [&](const Step& step) {
            const OperandLayout& operand = layout_.operands[step.dst];
            if (operand.dense) {
              step.store(operand.data + at * operand.element_bytes,
                         operand.element_bytes, places_[step.a], length);
              return;
            }
            ForEachPiece(layout_, operand, cursor, length,
                         [&](char* to, int64_t done, int64_t count) {
                           step.store(
                               to, operand.inner_stride,
                               places_[step.a] + done * step.register_bytes,
                               count);
                         });
          });
      at += length;
    }
  }

  const Plan& plan_;
  const Layout& layout_;
  std::atomic<bool>* const zero_division_;
  int64_t block_ = 0;
  char* places_[kMaxPlaces];  // no initialiser: most are not used
};

}  // namespace

bool RunPlan(const Plan& plan, const Layout& layout, int64_t begin, int64_t end,
             std::atomic<bool>* zero_division) {
  return Runner(plan, layout, zero_division).Run(begin, end);
}

}  // namespace tvarant::host
