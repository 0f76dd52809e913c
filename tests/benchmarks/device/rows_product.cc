// Matrix products: by dtype, size and layout of the operands, with an epilogue,
// in batches, and by a vector.

#include <memory>
#include <string>
#include <utility>

#include "tests/benchmarks/device/suite.h"

namespace tvarant::benchmarks {
namespace {

enum class Layout {
  kPlain,       // A [m, k], B [k, n]
  kLinear,      // B stands as [n, k]: x @ weight.T
  kWeightGrad,  // A stands as [k, m]: x.T @ dy
};

struct Product {
  DType dtype;
  int64_t batch, m, n, k;
  Layout layout = Layout::kPlain;
  bool epilogue = false;  // gelu(A @ B + bias)

  double bytes() const {
    return static_cast<double>(batch * (m * k + k * n + m * n)) *
           static_cast<double>(SizeOf(dtype));
  }
};

// Dense; as the transposed one of what is made where `transposed`.
Status MakeMatrices(Scope& scope, const Product& product, int64_t rows,
                    int64_t columns, bool transposed, Tensor* out) {
  const Dims sizes = transposed ? Dims{product.batch, columns, rows}
                                : Dims{product.batch, rows, columns};
  const Status status = scope.Make(product.dtype, sizes, out);
  if (status.ok() && transposed) *out = out->Transposed(1, 2);
  return status;
}

Status Prepare(const Product& product, Device& device, Scope& scope,
               Turn* turn) {
  Tensor a, b, c, bias;
  Status status = MakeMatrices(scope, product, product.m, product.k,
                               product.layout == Layout::kWeightGrad, &a);
  if (status.ok()) {
    status = MakeMatrices(scope, product, product.k, product.n,
                          product.layout == Layout::kLinear, &b);
  }
  if (status.ok()) {
    status = scope.Make(product.dtype, {product.batch, product.m, product.n},
                        &c, false);
  }
  std::vector<Tensor> src{a, b};
  if (status.ok() && product.epilogue) {
    status = scope.Make(product.dtype, {1, 1, product.n}, &bias);
    src.push_back(bias.Broadcast(0, product.batch).Broadcast(1, product.m));
  }
  if (!status.ok()) return status;
  auto launch = std::make_shared<LaunchOf>(
      Kernel::kGemm, std::vector<Tensor>{c}, std::move(src));
  LaunchParams& params = launch->params();
  params.batch = product.batch;
  params.m = product.m;
  params.n = product.n;
  params.k = product.k;
  params.beta = product.epilogue ? 1 : 0;
  params.act = product.epilogue ? Act::kGelu : Act::kNone;
  *turn = [&device, launch] { return device.Launch(*launch); };
  return Status();
}

Row RowOf(const char* family, std::string name, const Product& product) {
  Row row{.family = family,
          .name = std::move(name),
          .dtype = product.dtype,
          .sizes = {product.m, product.n, product.k},
          .peer = product.epilogue                        ? "linear_gelu"
                  : product.layout == Layout::kLinear     ? "linear"
                  : product.layout == Layout::kWeightGrad ? "weight_grad"
                                                          : "mm",
          .flops = 2.0 * static_cast<double>(product.batch * product.m) *
                   static_cast<double>(product.n * product.k),
          .memory_bytes = static_cast<uint64_t>(product.bytes())};
  if (product.batch != 1) {
    row.sizes.insert(row.sizes.begin(), product.batch);
    row.peer = "bmm";
  }
  row.prepare = [product](Device& device, Scope& scope, Turn* turn) {
    return Prepare(product, device, scope, turn);
  };
  return row;
}

void AddSquare(DType dtype, int64_t n, bool every_layout,
               std::vector<Row>* rows) {
  Product product{dtype, 1, n, n, n};
  rows->push_back(RowOf("gemm", "A @ B", product));
  product.layout = Layout::kLinear;
  rows->push_back(RowOf("gemm", "A @ B.T", product));
  if (!every_layout) return;
  product.epilogue = true;
  rows->push_back(RowOf("gemm", "gelu(A @ B.T + bias)", product));
  product.epilogue = false;
  product.layout = Layout::kWeightGrad;
  rows->push_back(RowOf("gemm", "A.T @ B", product));
}

// Bound by the memory that the matrix stands in.
void AddVectorProducts(DType dtype, uint64_t array_bytes,
                       std::vector<Row>* rows) {
  const int64_t k = array_bytes >= (128 << 20) ? 8192 : 2048;
  const int64_t n = static_cast<int64_t>(array_bytes / SizeOf(dtype)) / k;
  for (const int64_t m : {1, 8}) {
    Product product{dtype, 1, m, n, k, Layout::kLinear};
    Row row = RowOf("gemv", m == 1 ? "x @ B.T" : "8 x @ B.T", product);
    row.bytes = product.bytes();
    rows->push_back(row);
    if (m != 1) continue;
    product.layout = Layout::kPlain;
    row = RowOf("gemv", "x @ B", product);
    row.bytes = product.bytes();
    rows->push_back(row);
  }
}

}  // namespace

void AddProductRows(const Scale& scale, std::vector<Row>* rows) {
  constexpr DType kDTypes[] = {DType::kFloat32, DType::kBFloat16,
                               DType::kFloat16};
  const int64_t smallest = scale.quick ? 128 : 1024;
  for (int64_t n = smallest; n <= scale.largest_product; n *= 2) {
    const bool every_layout = n >= 4096 || n == scale.largest_product;
    for (const DType dtype : kDTypes) {
      AddSquare(dtype, n, every_layout, rows);
    }
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const int64_t batch = scale.quick ? 2 : 64;
    rows->push_back(RowOf("gemm", "batched A @ B",
                          {dtype, batch, 512, 512, scale.quick ? 16 : 64}));
  }
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    AddVectorProducts(dtype, scale.array_bytes, rows);
  }
}

}  // namespace tvarant::benchmarks
