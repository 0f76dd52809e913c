// Registers one test for each case and runs them on the linked backend.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "tests/conformance/backend.h"
#include "tests/conformance/cases.h"

namespace tvarant::conformance {
namespace {

Backend* g_backend = nullptr;  // lives as long as the program

const Exception* FindException(const std::vector<Exception>& list,
                               const std::string& name) {
  for (const Exception& exception : list) {
    if (name.rfind(exception.case_prefix, 0) == 0) return &exception;
  }
  return nullptr;
}

class CaseTest : public testing::Test {
 public:
  explicit CaseTest(Case test_case) : case_(std::move(test_case)) {}

  void TestBody() override {
    const BackendTraits& traits = GetBackendTraits();
    const absl::Status status = case_.run(*g_backend);
    if (const Exception* exception =
            FindException(traits.unsupported, case_.name)) {
      EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented)
          << "listed as unsupported: " << exception->reason << "; " << status;
    } else if (const Exception* failure =
                   FindException(traits.expected_failures, case_.name)) {
      EXPECT_FALSE(status.ok()) << "passes: take it off the expected failures ("
                                << failure->reason << ")";
    } else {
      EXPECT_TRUE(status.ok()) << status;
    }
  }

 private:
  Case case_;
};

// Each row of the op tables has a case.
class CoverageTest : public testing::Test {
 public:
  void TestBody() override {
    std::set<Kernel> kernels;
    std::set<PointwiseOp> ops;
    std::set<std::string> names;
    for (const Case& c : AllCases()) {
      kernels.insert(c.kernel);
      ops.insert(c.ops.begin(), c.ops.end());
      EXPECT_TRUE(names.insert(c.name).second) << c.name << " is there twice";
    }
#define TVARANT_KERNEL(id, Name, name, min_dst, max_dst, min_src, max_src, \
                       doc)                                                \
  EXPECT_EQ(kernels.count(Kernel::k##Name), 1u)                            \
      << "kernel " << #name << " has no case";
#include "proto/ops/kernels.inc"
#define TVARANT_POINTWISE_OP(code, Name, name, arity, types, result, expr, \
                             doc)                                          \
  EXPECT_EQ(ops.count(PointwiseOp::k##Name), 1u)                           \
      << "pointwise op " << #name << " has no case";
#include "proto/ops/pointwise_ops.inc"
    // A list that names no case is out of date.
    const BackendTraits& traits = GetBackendTraits();
    for (const auto* list : {&traits.unsupported, &traits.expected_failures}) {
      for (const Exception& exception : *list) {
        bool found = false;
        for (const std::string& name : names) {
          found |= name.rfind(exception.case_prefix, 0) == 0;
        }
        EXPECT_TRUE(found) << exception.case_prefix << " names no case";
      }
    }
  }
};

// TVARANT_CONFORMANCE_SAMPLE=n keeps each n-th case and the first of each
// kernel, for backends that take long to build kernels. 1 without it.
class Sample {
 public:
  Sample() {
    const char* text = std::getenv("TVARANT_CONFORMANCE_SAMPLE");
    if (text != nullptr && !absl::SimpleAtoi(text, &every_)) every_ = 0;
  }
  bool valid() const { return every_ >= 1; }
  bool Takes(const Case& c) {
    const bool first = kernels_.insert(c.kernel).second;
    return index_++ % every_ == 0 || first;
  }

 private:
  int every_ = 1;
  int index_ = 0;
  std::set<Kernel> kernels_;
};

int Main() {
  Sample sample;
  if (!sample.valid()) {
    std::fprintf(stderr, "TVARANT_CONFORMANCE_SAMPLE is no number from 1\n");
    return 1;
  }
  auto backend = MakeBackend();
  if (!backend.ok()) {
    std::fprintf(stderr, "no backend %s: %s\n", GetBackendTraits().name.c_str(),
                 backend.status().ToString().c_str());
    return 1;
  }
  g_backend = backend->get();
  testing::RegisterTest("Conformance", "EveryRowHasACase", nullptr, nullptr,
                        __FILE__, __LINE__,
                        []() -> testing::Test* { return new CoverageTest; });
  for (const Case& c : AllCases()) {
    if (!sample.Takes(c)) continue;
    testing::RegisterTest("Conformance", c.name.c_str(), nullptr, nullptr,
                          __FILE__, __LINE__,
                          [c]() -> testing::Test* { return new CaseTest(c); });
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace tvarant::conformance

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return tvarant::conformance::Main();
}
