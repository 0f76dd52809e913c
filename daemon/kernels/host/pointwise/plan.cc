#include "daemon/kernels/host/pointwise/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tvarant::host {
namespace {

// Registers of a block should stay in the first-level cache.
constexpr int64_t kRegisterBudgetBytes = 24 << 10;
constexpr int64_t kMinBlock = 256;
constexpr int64_t kMaxBlock = 4096;
// Elements of a cheap op that are worth waking another thread for.
constexpr int64_t kCheapGrain = 32 << 10;
// A math function costs about as much as this many cheap ops.
constexpr int64_t kMathCost = 8;
// One that goes element by element.
constexpr int64_t kSpecialCost = 64;

bool IsInPlaceType(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kInt64 ||
         dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

bool DividesIntegers(PointwiseOp op, ComputeClass compute_class) {
  if (compute_class != ComputeClass::kI32 &&
      compute_class != ComputeClass::kI64) {
    return false;
  }
  return op == PointwiseOp::kDivTrunc || op == PointwiseOp::kDivFloor ||
         op == PointwiseOp::kRemainder || op == PointwiseOp::kFmod;
}

// Ops that are a handful of instructions; all else is a math function.
bool IsCheap(PointwiseOp op) {
  const int code = static_cast<int>(op);
  const int div = static_cast<int>(PointwiseOp::kDiv);
  if (op == PointwiseOp::kSilu || op == PointwiseOp::kSigmoid) return false;
  if (code <= div) return true;
  if (code >= static_cast<int>(PointwiseOp::kMaximum) &&
      code <= static_cast<int>(PointwiseOp::kFmin)) {
    return true;
  }
  if (code >= static_cast<int>(PointwiseOp::kEq) &&
      code <= static_cast<int>(PointwiseOp::kSign)) {
    return true;
  }
  if (code >= static_cast<int>(PointwiseOp::kSqrt) &&
      code <= static_cast<int>(PointwiseOp::kSquare)) {
    return true;
  }
  if (code >= static_cast<int>(PointwiseOp::kFloor) &&
      code <= static_cast<int>(PointwiseOp::kFrac)) {
    return true;
  }
  return op == PointwiseOp::kHardswish || op == PointwiseOp::kHardsigmoid ||
         op == PointwiseOp::kSigmoidGrad || op == PointwiseOp::kTanhGrad ||
         code >= static_cast<int>(PointwiseOp::kWhere);
}

int64_t CostOf(PointwiseOp op) {
  if (op >= PointwiseOp::kDigamma) return kSpecialCost;
  return IsCheap(op) ? 1 : kMathCost;
}

class Planner {
 public:
  Planner(const Program& program, const Scalars& scalars,
          absl::Span<const Tensor> dst, absl::Span<const Tensor> src,
          const Layout& layout, Plan* plan)
      : program_(program),
        scalars_(scalars),
        dst_(dst),
        src_(src),
        layout_(layout),
        table_(GetOpTable()),
        plan_(*plan) {}

  absl::Status Build() {
    plan_.num_setup = plan_.num_body = 0;
    plan_.num_registers = plan_.num_in_place = 0;
    for (const absl::Span<const Tensor> operands : {dst_, src_}) {
      for (const Tensor& tensor : operands) {
        if (ComputeClassOf(tensor.dtype) == ComputeClass::kNone) {
          return absl::UnimplementedError(absl::StrCat(
              "pointwise: dtype ", NameOf(tensor.dtype), " is not supported"));
        }
      }
    }
    if (program_.stores.size() != dst_.size()) {
      return absl::InvalidArgumentError(
          "pointwise: the number of outputs differs from the program's");
    }
    FindLastUses();
    ChooseDestinations();
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      absl::Status status = AddNode(static_cast<int>(i));
      if (!status.ok()) return status;
    }
    for (size_t k = 0; k < program_.stores.size(); ++k) {
      AddStore(static_cast<int>(k));
    }
    ChooseBlock();
    return absl::OkStatus();
  }

 private:
  // No initialisers: there is an array of many.
  struct Value {
    Place place;
    // Conversions and ops on uniform values run once per thread.
    bool uniform;
    DType dtype;
    int16_t last_use;  // node; the number of nodes: a store
    int16_t output;    // written in place to this output; -1: none
    int16_t alias;     // whose register this is; -1: its own
  };

  int num_nodes() const { return static_cast<int>(program_.nodes.size()); }

  void FindLastUses() {
    const int count = num_nodes();
    for (int i = 0; i < count; ++i) {
      values_[i] = Value{0, false, DType::kInvalid, -1, -1, -1};
    }
    for (uint16_t stored : program_.stores) {
      values_[stored].last_use = static_cast<int16_t>(count);
    }
    for (int i = count - 1; i >= 0; --i) {
      const ProgramNode& node = program_.nodes[i];
      for (int operand : {node.a, node.b, node.c}) {
        if (operand < 0) continue;
        const int use =
            MayAlias(node) ? std::max<int>(i, values_[i].last_use) : i;
        values_[operand].last_use =
            static_cast<int16_t>(std::max<int>(values_[operand].last_use, use));
      }
    }
    // The last node that reads each input's memory.
    std::fill(last_read_, last_read_ + src_.size(), -1);
    for (int i = 0; i < count; ++i) {
      const ProgramNode& node = program_.nodes[i];
      if (node.op == PointwiseOp::kLoad && node.index < src_.size()) {
        last_read_[node.index] = std::max(
            {last_read_[node.index], i, static_cast<int>(values_[i].last_use)});
      }
    }
  }

  // Whether the node's value may stand where its operand stands.
  bool MayAlias(const ProgramNode& node) const {
    return node.op == PointwiseOp::kIdentity ||
           (node.op == PointwiseOp::kCast &&
            ComputeClassOf(node.dtype) ==
                ComputeClassOf(program_.nodes[node.a].dtype));
  }

  bool InPlace(const OperandLayout& operand) const {
    return layout_.by_rows ? operand.dense_inner : operand.dense;
  }

  // An op's result may go straight to an output of its own type, unless a
  // later node still reads an input that stands in the same memory.
  void ChooseDestinations() {
    for (size_t k = 0; k < dst_.size(); ++k) {
      const int i = program_.stores[k];
      const ProgramNode& node = program_.nodes[i];
      const DType dtype = dst_[k].dtype;
      if (values_[i].output >= 0 || node.op == PointwiseOp::kLoad ||
          node.op == PointwiseOp::kConst || node.op == PointwiseOp::kScalar ||
          node.op == PointwiseOp::kIdentity || node.op == PointwiseOp::kCast ||
          !IsInPlaceType(dtype) ||
          ComputeClassOf(dtype) != ComputeClassOf(node.dtype) ||
          !InPlace(layout_.operands[k])) {
        continue;
      }
      bool safe = true;
      for (size_t j = 0; j < src_.size(); ++j) {
        safe &= src_[j].data != dst_[k].data || last_read_[j] <= i;
      }
      if (safe) values_[i].output = static_cast<int16_t>(k);
    }
  }

  // Registers of setup and of the body are never exchanged: setup runs first,
  // and what it leaves must outlive every block.
  struct FreeList {
    int count = 0;
    Place places[kMaxRegisters];
  };
  Place NewRegister(bool setup) {
    FreeList& list = setup ? free_setup_ : free_body_;
    if (list.count > 0) return list.places[--list.count];
    return static_cast<Place>(kFirstRegister + plan_.num_registers++);
  }
  void Free(bool setup, Place place) {
    FreeList& list = setup ? free_setup_ : free_body_;
    if (place >= kFirstRegister) list.places[list.count++] = place;
  }

  Step* AddStep(bool setup, Step::Kind kind) {
    Step* step =
        setup ? &plan_.setup[plan_.num_setup++] : &plan_.body[plan_.num_body++];
    *step = Step();
    step->kind = kind;
    return step;
  }

  void AddOp(bool setup, OpLoop loop, Place dst, Place a, Place b = 0,
             Place c = 0, uint64_t alpha = 0) {
    Step* step = AddStep(setup, Step::kOp);
    step->op = loop;
    step->dst = dst;
    step->a = a;
    step->b = b;
    step->c = c;
    step->immediate = alpha;
  }

  // The place of an operand that steps read or write where it is.
  Place UseInPlace(int operand) {
    const Place place = static_cast<Place>(operand);
    for (int i = 0; i < plan_.num_in_place; ++i) {
      if (plan_.in_place[i] == place) return place;
    }
    plan_.in_place[plan_.num_in_place++] = place;
    return place;
  }

  // One conversion of `value` by `loop` into a register; `owned`: the value's
  // register is free afterwards.
  void ApplyInto(OpLoop loop, bool owned, Value* value) {
    const Place from = value->place;
    value->place = NewRegister(value->uniform);
    AddOp(value->uniform, loop, value->place, from);
    if (owned) Free(value->uniform, from);
  }

  // Converts to the values of `to`, in its class. `rounded`: also to the
  // values of a dtype narrower than its class.
  void Convert(DType to, bool rounded, bool owned, Value* value) {
    const DType from = value->dtype;
    value->dtype = to;
    if (from == to) return;
    const ComputeClass from_class = ComputeClassOf(from);
    const ComputeClass to_class = ComputeClassOf(to);
    if (to == DType::kBool) {
      ApplyInto(table_.to_bool[ClassIndex(from_class)], owned, value);
      return;
    }
    if (from_class != to_class) {
      ApplyInto(table_.cast[ClassIndex(from_class)][ClassIndex(to_class)],
                owned, value);
      owned = true;
    }
    const OpLoop round = table_.round[static_cast<int>(to)];
    if (rounded && round != nullptr && from != DType::kBool) {
      ApplyInto(round, owned, value);
    }
  }

  absl::Status AddNode(int i) {
    const ProgramNode& node = program_.nodes[i];
    Value* value = &values_[i];
    value->dtype = node.dtype;
    switch (node.op) {
      case PointwiseOp::kLoad:
        return AddLoad(node, value);
      case PointwiseOp::kConst:
        AddConstant(node.dtype, node.immediate_double(), node.immediate_int(),
                    value);
        return absl::OkStatus();
      case PointwiseOp::kScalar: {
        const bool is_float = IsFloating(node.dtype);
        if (node.index >=
            (is_float ? scalars_.floats.size() : scalars_.ints.size())) {
          return absl::InvalidArgumentError(
              "pointwise: the launch has too few scalars");
        }
        AddConstant(node.dtype, is_float ? scalars_.floats[node.index] : 0,
                    is_float ? 0 : scalars_.ints[node.index], value);
        return absl::OkStatus();
      }
      case PointwiseOp::kIdentity: {
        const Value& from = values_[node.a];
        value->place = from.place;
        value->uniform = from.uniform;
        value->alias = from.alias >= 0 ? from.alias : node.a;
        return absl::OkStatus();
      }
      case PointwiseOp::kCast: {
        Value from = values_[node.a];
        from.dtype = program_.nodes[node.a].dtype;
        const bool dies = Dies(node.a, i);
        const Place before = from.place;
        Convert(node.dtype, true, dies, &from);
        value->place = from.place;
        value->uniform = from.uniform;
        if (from.place == before) {
          value->alias =
              values_[node.a].alias >= 0 ? values_[node.a].alias : node.a;
          ExtendLife(value->alias, value->last_use);
        }
        return absl::OkStatus();
      }
      default:
        return AddArithmetic(i, node, value);
    }
  }

  absl::Status AddLoad(const ProgramNode& node, Value* value) {
    if (node.index >= src_.size()) {
      return absl::InvalidArgumentError(
          "pointwise: the launch has too few inputs");
    }
    const int operand = kFirstSrc + node.index;
    const OperandLayout& layout = layout_.operands[operand];
    const DType from = src_[node.index].dtype;
    value->dtype = from;
    value->uniform = layout.uniform;
    if (!layout.uniform && IsInPlaceType(from) && InPlace(layout) &&
        !IsOverwritten(node.index, *value)) {
      value->place = UseInPlace(operand);
      Convert(node.dtype, true, false, value);
      return absl::OkStatus();
    }
    value->place = NewRegister(value->uniform);
    Step* step = AddStep(value->uniform, Step::kLoad);
    step->load = table_.load[static_cast<int>(from)];
    step->register_bytes =
        static_cast<uint8_t>(ClassBytes(ComputeClassOf(from)));
    step->dst = value->place;
    step->a = static_cast<Place>(operand);
    Convert(node.dtype, true, true, value);
    return absl::OkStatus();
  }

  // Whether a store might change an input before its stored value is written
  // elsewhere: y0 = b, y1 = a onto b and a.
  bool IsOverwritten(int input, const Value& value) const {
    if (value.last_use < num_nodes() || dst_.size() < 2) return false;
    for (const Tensor& tensor : dst_) {
      if (tensor.data == src_[input].data) return true;
    }
    return false;
  }

  void AddConstant(DType dtype, double real, int64_t integer, Value* value) {
    value->uniform = true;
    value->place = NewRegister(true);
    const ComputeClass compute_class = ComputeClassOf(dtype);
    Step* step = AddStep(
        true, ClassBytes(compute_class) == 4 ? Step::kSplat4 : Step::kSplat8);
    step->dst = value->place;
    switch (compute_class) {
      case ComputeClass::kF32:
        step->immediate =
            __builtin_bit_cast(uint32_t, static_cast<float>(real));
        break;
      case ComputeClass::kF64:
        step->immediate = __builtin_bit_cast(uint64_t, real);
        break;
      case ComputeClass::kI32:
        if (dtype == DType::kBool) integer = integer != 0;
        step->immediate = static_cast<uint32_t>(integer);
        break;
      default:
        step->immediate = static_cast<uint64_t>(integer);
        break;
    }
  }

  // Whether node `use` is the last to read operand's register, and may have it.
  bool Dies(int operand, int use) const {
    const Value& value = values_[operand];
    return value.last_use == use && value.alias < 0 && value.output < 0 &&
           value.place >= kFirstRegister && !value.uniform;
  }

  void ExtendLife(int i, int last_use) {
    values_[i].last_use =
        static_cast<int16_t>(std::max<int>(values_[i].last_use, last_use));
  }

  absl::Status AddArithmetic(int i, const ProgramNode& node, Value* value) {
    // The class that the op computes in: of its values, not of a condition or
    // a comparison's result.
    const bool is_where = node.op == PointwiseOp::kWhere;
    const ComputeClass compute_class =
        ComputeClassOf(program_.nodes[is_where ? node.b : node.a].dtype);
    const int class_index = ClassIndex(compute_class);
    OpLoop loop = table_.ops[class_index][static_cast<int>(node.op)];
    if (node.op == PointwiseOp::kAdd && AlphaIsOne(node)) {
      loop = table_.plain_add[class_index];
    }
    if (loop == nullptr) {
      return absl::UnimplementedError(absl::StrCat(
          "pointwise: no ", NameOf(node.op), " for ", NameOf(node.dtype)));
    }
    const int operands[3] = {node.a, node.b, node.c};
    Place places[3] = {0, 0, 0};
    bool uniform = true;
    for (int k = 0; k < 3; ++k) {
      if (operands[k] < 0) continue;
      places[k] = values_[operands[k]].place;
      uniform &= values_[operands[k]].uniform;
    }
    value->uniform = uniform && value->output < 0;
    if (DividesIntegers(node.op, compute_class)) {
      Step* step = AddStep(false, Step::kCheckZero);
      step->any_zero = table_.any_zero[class_index];
      step->a = places[1];
    }
    // A dying operand of the same class may be overwritten in place; another
    // class must not share memory within one loop.
    const ComputeClass result_class = ComputeClassOf(node.dtype);
    const auto free_dying = [&](bool same_class) {
      for (int k = 0; k < 3; ++k) {
        if (operands[k] < 0 || !Dies(operands[k], i)) continue;
        bool seen = false;
        for (int j = 0; j < k; ++j) seen |= operands[j] == operands[k];
        const ComputeClass operand_class =
            ComputeClassOf(program_.nodes[operands[k]].dtype);
        if (!seen && (operand_class == result_class) == same_class) {
          Free(false, places[k]);
        }
      }
    };
    free_dying(true);
    value->place = value->output >= 0 ? UseInPlace(value->output)
                                      : NewRegister(value->uniform);
    free_dying(false);
    AddOp(value->uniform, loop, value->place, places[0], places[1], places[2],
          node.immediate);
    cost_ += CostOf(node.op);
    return absl::OkStatus();
  }

  static bool AlphaIsOne(const ProgramNode& node) {
    return IsFloating(node.dtype) ? node.immediate_double() == 1.0
                                  : node.immediate_int() == 1;
  }

  void AddStore(int k) {
    const int i = program_.stores[k];
    if (values_[i].output == k) return;
    Value value = values_[i];
    value.dtype = program_.nodes[i].dtype;
    // The value keeps its register: a second store may need it.
    Convert(dst_[k].dtype, false, false, &value);
    Step* step = AddStep(false, Step::kStore);
    step->store = table_.store[static_cast<int>(dst_[k].dtype)];
    step->dst = static_cast<Place>(k);
    step->register_bytes =
        static_cast<uint8_t>(ClassBytes(ComputeClassOf(dst_[k].dtype)));
    step->a = value.place;
    if (value.place != values_[i].place) Free(value.uniform, value.place);
  }

  void ChooseBlock() {
    int64_t grain = kCheapGrain;
    if (cost_ > 4) grain = std::max<int64_t>(grain * 4 / cost_, 1024);
    plan_.grain = grain;
    if (plan_.num_registers == 0) {
      plan_.block = INT64_MAX;
      return;
    }
    const int64_t fits =
        kRegisterBudgetBytes / (plan_.num_registers * int64_t{8});
    plan_.block = std::clamp(fits / 64 * 64, kMinBlock, kMaxBlock);
  }

  const Program& program_;
  const Scalars& scalars_;
  const absl::Span<const Tensor> dst_;
  const absl::Span<const Tensor> src_;
  const Layout& layout_;
  const OpTable& table_;
  Plan& plan_;
  int64_t cost_ = 0;
  int last_read_[kMaxProgramInputs];
  Value values_[kMaxProgramNodes];
  FreeList free_setup_;
  FreeList free_body_;
};

}  // namespace

absl::Status BuildPlan(const Program& program, const Scalars& scalars,
                       absl::Span<const Tensor> dst,
                       absl::Span<const Tensor> src, const Layout& layout,
                       Plan* plan) {
  return Planner(program, scalars, dst, src, layout, plan).Build();
}

}  // namespace tvarant::host
