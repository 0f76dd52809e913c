#include "daemon/jit/pointwise_source.h"

#include <array>
#include <cctype>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "daemon/jit/math_sources.h"
#include "proto/base/status_macros.h"

namespace tvarant::opencl {
namespace {

struct OpText {
  const char* expression;  // "" for an op that is written here
  bool gives_bool;
};

// By op code.
const std::array<OpText, 256>& OpTexts() {
  static const std::array<OpText, 256>* const texts = [] {
    auto* table = new std::array<OpText, 256>();
    table->fill({nullptr, false});
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  (*table)[code] = {#expr, #result[0] == 'B'};
#include "proto/ops/pointwise_ops.inc"
    return table;
  }();
  return *texts;
}

char SuffixOf(ComputeClass type) {
  switch (type) {
    case ComputeClass::kI32:
      return 'i';
    case ComputeClass::kI64:
      return 'l';
    case ComputeClass::kF64:
      return 'd';
    default:
      return 'f';
  }
}

const char* TypeOf(ComputeClass type) {
  switch (type) {
    case ComputeClass::kI32:
      return "int";
    case ComputeClass::kI64:
      return "long";
    case ComputeClass::kF64:
      return "double";
    default:
      return "float";
  }
}

const char* TypeName(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "bool";
    case DType::kUInt8:
      return "u8";
    case DType::kInt8:
      return "i8";
    case DType::kInt16:
      return "i16";
    case DType::kInt32:
      return "i32";
    case DType::kInt64:
      return "i64";
    case DType::kFloat16:
      return "f16";
    case DType::kBFloat16:
      return "bf16";
    case DType::kFloat64:
      return "f64";
    default:
      return "f32";
  }
}

bool IsFloat(ComputeClass type) {
  return type == ComputeClass::kF32 || type == ComputeClass::kF64;
}

bool DividesIntegers(PointwiseOp op, ComputeClass type) {
  return !IsFloat(type) &&
         (op == PointwiseOp::kDivTrunc || op == PointwiseOp::kDivFloor ||
          op == PointwiseOp::kRemainder || op == PointwiseOp::kFmod);
}

bool TakesAlpha(PointwiseOp op) {
  return op == PointwiseOp::kAdd || op == PointwiseOp::kScale ||
         op == PointwiseOp::kAddcmul || op == PointwiseOp::kAddcdiv;
}

bool AlphaIsOne(const ProgramNode& node) {
  return IsFloating(node.dtype) ? node.immediate_double() == 1.0
                                : node.immediate_int() == 1;
}

// Where the functions that an op's expression names stand: in math.cl, or in
// a text of their own, which programs without them need not compile.
enum class MathPart { kPlain, kGamma, kNormal, kBessel, kPolynomial, kNone };

MathPart PartOf(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::kDigamma:
    case PointwiseOp::kZeta:
    case PointwiseOp::kIgamma:
    case PointwiseOp::kIgammac:
      return MathPart::kGamma;
    case PointwiseOp::kErfinv:
    case PointwiseOp::kErfcx:
    case PointwiseOp::kNdtri:
    case PointwiseOp::kLogNdtr:
    case PointwiseOp::kFrexpMantissa:
    case PointwiseOp::kFrexpExponent:
      return MathPart::kNormal;
    case PointwiseOp::kBesselI0:
    case PointwiseOp::kBesselI0e:
    case PointwiseOp::kBesselI1:
    case PointwiseOp::kBesselI1e:
    case PointwiseOp::kBesselK0:
    case PointwiseOp::kBesselK0e:
    case PointwiseOp::kBesselK1:
    case PointwiseOp::kBesselK1e:
    case PointwiseOp::kSphericalJ0:
    case PointwiseOp::kAiryAi:
      return MathPart::kBessel;
    case PointwiseOp::kChebyshevT:
    case PointwiseOp::kChebyshevU:
    case PointwiseOp::kChebyshevV:
    case PointwiseOp::kChebyshevW:
    case PointwiseOp::kHermiteH:
    case PointwiseOp::kHermiteHe:
    case PointwiseOp::kLaguerre:
    case PointwiseOp::kLegendre:
      return MathPart::kPolynomial;
    // OpenCL C has none of them, and nobody wrote them for it.
    case PointwiseOp::kBesselJ0:
    case PointwiseOp::kBesselJ1:
    case PointwiseOp::kBesselY0:
    case PointwiseOp::kBesselY1:
      return MathPart::kNone;
    default:
      return MathPart::kPlain;
  }
}

// An expression of the op table for one computing type: T(x) and fn_name(x)
// get its suffix.
std::string Specialise(absl::string_view text, char suffix) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (!std::isalpha(static_cast<unsigned char>(text[i])) && text[i] != '_') {
      out += text[i++];
      continue;
    }
    size_t end = i;
    while (end < text.size() &&
           (std::isalnum(static_cast<unsigned char>(text[end])) ||
            text[end] == '_')) {
      ++end;
    }
    const absl::string_view word = text.substr(i, end - i);
    absl::StrAppend(&out, word);
    if (word == "T" || word.substr(0, 3) == "fn_") {
      absl::StrAppend(&out, "_", std::string(1, suffix));
    }
    i = end;
  }
  return out;
}

const std::string& MathText() {
  static const std::string* const text = new std::string(absl::StrReplaceAll(
      kMathCl.text, {{"#include_real", kMathRealCl.text},
                     {"#include_integer", kMathIntegerCl.text}}));
  return *text;
}

// For float and double.
std::string ForReals(absl::string_view text) {
  return absl::StrCat("#define REAL float\n#define FN(name) name##_f\n", text,
                      "#undef REAL\n#undef FN\n"
                      "#define REAL double\n#define FN(name) name##_d\n",
                      text, "#undef REAL\n#undef FN\n");
}

std::string TextOf(MathPart part) {
  switch (part) {
    case MathPart::kGamma:
      return kMathGammaCl.text;
    case MathPart::kNormal:
      return kMathNormalCl.text;
    case MathPart::kBessel:
      return absl::StrCat(absl::StrReplaceAll(kBesselTablesCl.text,
                                              {{"constexpr", "__constant"}}),
                          kMathBesselCl.text);
    case MathPart::kPolynomial:
      return ForReals(kMathPolynomialCl.text);
    default:
      return "";
  }
}

class Writer {
 public:
  Writer(const Program& program, const PointwiseShape& shape, bool has_double)
      : program_(program), shape_(shape), has_double_(has_double) {}

  absl::StatusOr<PointwiseKernel> Write() {
    RETURN_IF_ERROR(CheckTypes());
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      RETURN_IF_ERROR(AddNode(static_cast<int>(i)));
    }
    kernel_.source = MathText();
    for (const MathPart part : parts_) {
      absl::StrAppend(&kernel_.source, TextOf(part));
    }
    WriteElement();
    WriteKernel();
    return std::move(kernel_);
  }

 private:
  absl::Status CheckTypes() const {
    for (const auto* operands : {&shape_.dst, &shape_.src}) {
      for (const PointwiseOperand& operand : *operands) {
        RETURN_IF_ERROR(CheckType(operand.dtype));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckType(DType dtype) const {
    const ComputeClass type = ComputeClassOf(dtype);
    if (type == ComputeClass::kNone ||
        (type == ComputeClass::kF64 && !has_double_)) {
      return absl::UnimplementedError(absl::StrCat(
          "pointwise: the device does not compute in ", NameOf(dtype)));
    }
    return absl::OkStatus();
  }

  static std::string Value(int node) { return absl::StrCat("v", node); }

  // The value `text` of type `from` as one of type `to`. `rounded`: also to the
  // values of a type narrower than the one it is computed in.
  static std::string Convert(std::string text, DType from, DType to) {
    if (from == to) return text;
    const ComputeClass from_type = ComputeClassOf(from);
    const ComputeClass to_type = ComputeClassOf(to);
    if (to == DType::kBool) return absl::StrCat("(", text, " != 0)");
    if (from_type != to_type) {
      if (IsFloat(from_type) && !IsFloat(to_type)) {
        text = absl::StrCat(TypeOf(from_type), "_to_",
                            std::string(1, SuffixOf(to_type)), "(", text, ")");
      } else {
        text = absl::StrCat("(", TypeOf(to_type), ")(", text, ")");
      }
    }
    if (from == DType::kBool) return text;
    switch (to) {
      case DType::kFloat16:
        return absl::StrCat("round_f16(", text, ")");
      case DType::kBFloat16:
        return absl::StrCat("round_bf16(", text, ")");
      case DType::kUInt8:
        return absl::StrCat("(int)(uchar)(", text, ")");
      case DType::kInt8:
        return absl::StrCat("(int)(char)(", text, ")");
      case DType::kInt16:
        return absl::StrCat("(int)(short)(", text, ")");
      default:
        return text;
    }
  }

  // The name of a new argument.
  std::string AddConstant(ComputeClass type, PointwiseConstant::From from,
                          int node) {
    kernel_.constants.push_back({.type = type, .from = from, .node = node});
    return absl::StrCat("c", kernel_.constants.size() - 1);
  }

  absl::Status AddNode(int i) {
    const ProgramNode& node = program_.nodes[i];
    RETURN_IF_ERROR(CheckType(node.dtype));
    const ComputeClass type = ComputeClassOf(node.dtype);
    ASSIGN_OR_RETURN(const std::string text, NodeText(i, node, type));
    absl::StrAppend(&body_, "  const ", TypeOf(type), " ", Value(i), " = ",
                    text, ";\n");
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> NodeText(int i, const ProgramNode& node,
                                       ComputeClass type) {
    switch (node.op) {
      case PointwiseOp::kLoad:
        return Convert(absl::StrCat("x", node.index),
                       shape_.src[node.index].dtype, node.dtype);
      case PointwiseOp::kConst:
        return AddConstant(type, PointwiseConstant::From::kImmediate, i);
      case PointwiseOp::kScalar:
        return AddConstant(type, PointwiseConstant::From::kScalar, i);
      case PointwiseOp::kIdentity:
        return Value(node.a);
      case PointwiseOp::kCast:
        return Convert(Value(node.a), program_.nodes[node.a].dtype, node.dtype);
      default:
        return Arithmetic(i, node);
    }
  }

  absl::StatusOr<std::string> Arithmetic(int i, const ProgramNode& node) {
    const MathPart part = PartOf(node.op);
    if (part == MathPart::kNone || (part != MathPart::kPlain && !has_double_)) {
      return absl::UnimplementedError(absl::StrCat(
          "pointwise: no OpenCL form of ", NameOf(node.op), " here"));
    }
    if (part != MathPart::kPlain) parts_.insert(part);
    // The type of the values, not of a condition or a comparison's result.
    const bool is_where = node.op == PointwiseOp::kWhere;
    const ComputeClass type =
        ComputeClassOf(program_.nodes[is_where ? node.b : node.a].dtype);
    const std::string a = Value(node.a), b = Value(node.b), c = Value(node.c);
    const std::string alpha =
        TakesAlpha(node.op) && !AlphaIsOne(node)
            ? absl::StrCat(
                  AddConstant(type, PointwiseConstant::From::kImmediate, i),
                  " * ")
            : "";
    switch (node.op) {
      case PointwiseOp::kAdd:
        return absl::StrCat(a, " + ", alpha, b);
      case PointwiseOp::kScale:
        return absl::StrCat(alpha, a);
      case PointwiseOp::kAddcmul:
        return absl::StrCat(a, " + ", alpha, b, " * ", c);
      case PointwiseOp::kAddcdiv:
        return absl::StrCat(a, " + ", alpha, b, " / ", c);
      case PointwiseOp::kWhere:
        return absl::StrCat(a, " != 0 ? ", b, " : ", c);
      default:
        break;
    }
    if (DividesIntegers(node.op, type)) {
      kernel_.checks_zero = true;
      absl::StrAppend(&body_, "  *zero |= ", b, " == 0;\n");
    }
    std::string call = absl::StrCat(DefineOp(node.op, type), "(", a);
    if (node.b >= 0) absl::StrAppend(&call, ", ", b);
    if (node.c >= 0) absl::StrAppend(&call, ", ", c);
    return absl::StrCat(call, ")");
  }

  // The name of the function that is the op's expression.
  std::string DefineOp(PointwiseOp op, ComputeClass type) {
    const OpText& text = OpTexts()[static_cast<int>(op)];
    const char suffix = SuffixOf(type);
    const std::string name =
        absl::StrCat("op_", NameOf(op), "_", std::string(1, suffix));
    const std::string declaration = absl::StrCat(" ", name, "(");
    if (functions_.find(declaration) != std::string::npos) return name;
    absl::StrAppend(&functions_, "static inline ",
                    text.gives_bool ? "int" : TypeOf(type), declaration);
    const char* names[] = {"a", "b", "c"};
    for (int k = 0; k < ArityOf(op); ++k) {
      absl::StrAppend(&functions_, k > 0 ? ", " : "", TypeOf(type), " ",
                      names[k]);
    }
    absl::StrAppend(&functions_, ") {\n  return ",
                    Specialise(text.expression, suffix), ";\n}\n");
    return name;
  }

  const char* AccOf(const PointwiseOperand& operand) const {
    return TypeOf(ComputeClassOf(operand.dtype));
  }

  // The program for one element: a function from loaded values and constants
  // to values to store.
  void WriteElement() {
    std::string& out = kernel_.source;
    absl::StrAppend(&out, functions_, "static inline void element(");
    for (size_t i = 0; i < shape_.src.size(); ++i) {
      absl::StrAppend(&out, "const ", AccOf(shape_.src[i]), " x", i, ", ");
    }
    for (size_t i = 0; i < kernel_.constants.size(); ++i) {
      absl::StrAppend(&out, "const ", TypeOf(kernel_.constants[i].type), " c",
                      i, ", ");
    }
    for (size_t i = 0; i < shape_.dst.size(); ++i) {
      absl::StrAppend(&out, AccOf(shape_.dst[i]), "* y", i, ", ");
    }
    absl::StrAppend(&out, "int* zero) {\n", body_);
    for (size_t k = 0; k < shape_.dst.size(); ++k) {
      const int stored = program_.stores[k];
      // Rounding and wrapping to the type in memory is the store's work.
      absl::StrAppend(&out, "  *y", k, " = ",
                      ConvertClass(Value(stored), program_.nodes[stored].dtype,
                                   shape_.dst[k].dtype),
                      ";\n");
    }
    absl::StrAppend(&out, "}\n\n");
  }

  static std::string ConvertClass(std::string text, DType from, DType to) {
    if (to == DType::kBool) return absl::StrCat(text, " != 0");
    const ComputeClass type = ComputeClassOf(to);
    if (ComputeClassOf(from) == type) return text;
    const DType wide = type == ComputeClass::kI32   ? DType::kInt32
                       : type == ComputeClass::kI64 ? DType::kInt64
                       : type == ComputeClass::kF32 ? DType::kFloat32
                                                    : DType::kFloat64;
    return Convert(std::move(text), from, wide);
  }

  static bool IsFlat(Walk walk) {
    return walk == Walk::kDense || walk == Walk::kUniform;
  }
  bool ByDimensions() const { return !IsFlat(shape_.dst[0].walk); }
  // Read once, before the loop.
  static bool IsConstant(const PointwiseOperand& operand, bool written) {
    return operand.walk == Walk::kUniform && !written;
  }

  template <typename Body>
  void ForEachOperand(const Body& body) const {
    for (size_t i = 0; i < shape_.dst.size(); ++i) {
      body(shape_.dst[i], absl::StrCat("y", i), true);
    }
    for (size_t i = 0; i < shape_.src.size(); ++i) {
      body(shape_.src[i], absl::StrCat("x", i), false);
    }
  }

  void WriteKernel() {
    std::string& out = kernel_.source;
    const char* index = shape_.wide_index ? "long" : "int";
    absl::StrAppend(&out, "typedef ", index, " IDX;\n__kernel void pointwise(");
    ForEachOperand(
        [&](const PointwiseOperand&, const std::string& name, bool written) {
          absl::StrAppend(&out, written ? "gptr " : "gcptr ", name, "m, long ",
                          name, "o, ");
        });
    if (ByDimensions()) {
      for (int d = 1; d < shape_.rank; ++d) {
        absl::StrAppend(&out, "IDX s", d, ", ");
      }
      ForEachOperand(
          [&](const PointwiseOperand&, const std::string& name, bool) {
            for (int d = 0; d < shape_.rank; ++d) {
              absl::StrAppend(&out, "IDX ", name, "s", d, ", ");
            }
          });
    }
    for (size_t i = 0; i < kernel_.constants.size(); ++i) {
      absl::StrAppend(&out, TypeOf(kernel_.constants[i].type), " c", i, ", ");
    }
    absl::StrAppend(
        &out, "long n, int loops",
        kernel_.checks_zero ? ", __global int* faults, int launch" : "",
        ") {\n  int zero = 0;\n");
    ForEachOperand([&](const PointwiseOperand& operand, const std::string& name,
                       bool written) {
      absl::StrAppend(&out, "  const ", written ? "gptr " : "gcptr ", name,
                      "p = ", name, "m + ", name, "o;\n");
      if (IsConstant(operand, written)) {
        absl::StrAppend(&out, "  const ", AccOf(operand), " ", name,
                        "u = load_", TypeName(operand.dtype), "(", name,
                        "p, 0);\n");
      }
    });
    // By dimensions a step is a vector; else an element.
    const int stride = ByDimensions() ? 1 : shape_.vector;
    absl::StrAppend(&out, "  const IDX step = (IDX)get_local_size(0) * ",
                    stride,
                    ";\n"
                    "  IDX at = (IDX)get_group_id(0) * loops * step + "
                    "(IDX)get_local_id(0) * ",
                    stride,
                    ";\n"
                    "  for (int k = 0; k < loops; ++k, at += step) {\n"
                    "    if (at >= n) break;\n");
    if (ByDimensions()) {
      WriteDimensions();
      if (shape_.vector > 1) {
        WriteVector();
      } else {
        WriteScalar("    ");
      }
    } else if (shape_.vector > 1) {
      absl::StrAppend(&out, "    if (at + ", shape_.vector, " <= n) {\n");
      WriteVector();
      absl::StrAppend(&out,
                      "    } else {\n"
                      "      for (IDX i = at; i < n; ++i) {\n");
      WriteScalar("        ");
      absl::StrAppend(&out, "      }\n    }\n");
    } else {
      absl::StrAppend(&out, "    const IDX i = at;\n");
      WriteScalar("    ");
    }
    absl::StrAppend(&out, "  }\n");
    if (kernel_.checks_zero) {
      absl::StrAppend(&out, "  if (zero) fault(faults, launch, 0, 0);\n");
    }
    absl::StrAppend(&out, "}\n");
  }

  // "element(x0, x1u, c0, &y0, &zero);"
  std::string ElementCall() const {
    std::string call = "element(";
    for (size_t i = 0; i < shape_.src.size(); ++i) {
      absl::StrAppend(&call, "x", i,
                      IsConstant(shape_.src[i], false) ? "u" : "", ", ");
    }
    for (size_t i = 0; i < kernel_.constants.size(); ++i) {
      absl::StrAppend(&call, "c", i, ", ");
    }
    for (size_t i = 0; i < shape_.dst.size(); ++i) {
      absl::StrAppend(&call, "&y", i, ", ");
    }
    return absl::StrCat(call, "&zero);\n");
  }

  // d0, d1, ...: the place of step `at` in each dimension, by unsigned
  // division, which is the cheaper one.
  void WriteDimensions() {
    std::string& out = kernel_.source;
    const char* type = shape_.wide_index ? "ulong" : "uint";
    absl::StrAppend(&out, "    ", type, " rest = (", type, ")at;\n");
    for (int d = shape_.rank - 1; d > 0; --d) {
      absl::StrAppend(&out, "    const ", type, " q", d, " = rest / (", type,
                      ")s", d, ";\n    const IDX d", d, " = (IDX)(rest - q", d,
                      " * (", type, ")s", d, ");\n    rest = q", d, ";\n");
    }
    absl::StrAppend(&out, "    const IDX d0 = (IDX)rest;\n");
  }

  // The element that an operand is at, in terms of `flat` for a dense one.
  std::string PlaceOf(const PointwiseOperand& operand, const std::string& name,
                      const char* flat) const {
    if (operand.walk == Walk::kDense) return flat;
    if (operand.walk == Walk::kUniform) return "0";
    std::string place = absl::StrCat("d0 * ", name, "s0");
    for (int d = 1; d < shape_.rank; ++d) {
      absl::StrAppend(&place, " + d", d, " * ", name, "s", d);
    }
    return place;
  }

  void WriteScalar(const char* indent) {
    std::string& out = kernel_.source;
    ForEachOperand([&](const PointwiseOperand& operand, const std::string& name,
                       bool written) {
      if (IsConstant(operand, written)) return;
      absl::StrAppend(&out, indent, "const long ", name,
                      "at = ", PlaceOf(operand, name, "i"), ";\n", indent,
                      written ? "" : "const ", AccOf(operand), " ", name);
      if (!written) {
        absl::StrAppend(&out, " = load_", TypeName(operand.dtype), "(", name,
                        "p, ", name, "at)");
      }
      absl::StrAppend(&out, ";\n");
    });
    absl::StrAppend(&out, indent, ElementCall());
    ForEachOperand([&](const PointwiseOperand& operand, const std::string& name,
                       bool written) {
      if (!written) return;
      absl::StrAppend(&out, indent, "store_", TypeName(operand.dtype), "(",
                      name, "p, ", name, "at, ", name, ");\n");
    });
  }

  void WriteVector() {
    std::string& out = kernel_.source;
    const std::string vec = absl::StrCat("vec", shape_.vector, "_");
    ForEachOperand([&](const PointwiseOperand& operand, const std::string& name,
                       bool written) {
      if (IsConstant(operand, written)) return;
      const char* type = TypeName(operand.dtype);
      absl::StrAppend(&out, "      const long ", name,
                      "at = ", PlaceOf(operand, name, "at"), ";\n");
      if (written) {
        absl::StrAppend(&out, "      ", vec, type, " ", name, "v;\n");
      } else if (operand.walk == Walk::kInnerUniform) {
        absl::StrAppend(&out, "      const ", AccOf(operand), " ", name,
                        "e = load_", type, "(", name, "p, ", name, "at);\n");
      } else {
        absl::StrAppend(&out, "      const ", vec, type, " ", name,
                        "v = *(const __global ", vec, type, "*)(", name, "p + ",
                        name, "at * sizeof(mem_", type, "));\n");
      }
    });
    for (int lane = 0; lane < shape_.vector; ++lane) {
      const std::string member = absl::StrCat("v.s", lane);
      absl::StrAppend(&out, "      {\n");
      ForEachOperand([&](const PointwiseOperand& operand,
                         const std::string& name, bool written) {
        if (IsConstant(operand, written)) return;
        absl::StrAppend(&out, "        ", written ? "" : "const ",
                        AccOf(operand), " ", name);
        if (!written && operand.walk == Walk::kInnerUniform) {
          absl::StrAppend(&out, " = ", name, "e");
        } else if (!written) {
          absl::StrAppend(&out, " = unpack_", TypeName(operand.dtype), "(",
                          name, member, ")");
        }
        absl::StrAppend(&out, ";\n");
      });
      absl::StrAppend(&out, "        ", ElementCall());
      ForEachOperand([&](const PointwiseOperand& operand,
                         const std::string& name, bool written) {
        if (!written) return;
        absl::StrAppend(&out, "        ", name, member, " = pack_",
                        TypeName(operand.dtype), "(", name, ");\n");
      });
      absl::StrAppend(&out, "      }\n");
    }
    ForEachOperand([&](const PointwiseOperand& operand, const std::string& name,
                       bool written) {
      if (!written) return;
      const char* type = TypeName(operand.dtype);
      absl::StrAppend(&out, "      *(__global ", vec, type, "*)(", name, "p + ",
                      name, "at * sizeof(mem_", type, ")) = ", name, "v;\n");
    });
  }

  const Program& program_;
  const PointwiseShape& shape_;
  const bool has_double_;
  std::set<MathPart> parts_;  // that the program needs
  PointwiseKernel kernel_;
  std::string functions_;  // one for each op that is used
  std::string body_;       // of the function for one element
};

}  // namespace

absl::StatusOr<PointwiseKernel> MakePointwise(const Program& program,
                                              const PointwiseShape& shape,
                                              bool has_double) {
  return Writer(program, shape, has_double).Write();
}

std::string StructureOf(const Program& program) {
  std::string structure;
  for (ProgramNode node : program.nodes) {
    if (TakesAlpha(node.op)) {
      node.reserved = AlphaIsOne(node);
    }
    node.immediate = 0;
    structure.append(reinterpret_cast<const char*>(&node), sizeof(node));
  }
  structure.append("|");
  structure.append(reinterpret_cast<const char*>(program.stores.data()),
                   program.stores.size() * sizeof(uint16_t));
  return structure;
}

}  // namespace tvarant::opencl
