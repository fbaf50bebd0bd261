// Checks that docs/operators.md is up to date. GPUPOOL_WRITE_DOCS=1 writes it.
#include "tests/conformance/onnx/operator_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/conformance/onnx/cases.h"
#include "tests/test_paths.h"

namespace gpupool::engine::onnx_import {
namespace {

std::string ReadPage() {
  std::ifstream file(SourcePath("docs/operators.md"), std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST(OperatorTableTest, ThePageIsUpToDate) {
  if (AllCases().empty()) {
    GTEST_SKIP() << "the package libonnx-testdata is not installed";
  }
  if (!AreCasesDescribed()) {
    GTEST_SKIP() << "docs/operators.md describes the cases of ONNX 1.12";
  }
  const absl::StatusOr<std::string> page = OperatorsPage();
  ASSERT_TRUE(page.ok()) << page.status();
  const char* write = std::getenv("GPUPOOL_WRITE_DOCS");
  if (write != nullptr && std::string(write) == "1") {
    std::ofstream(SourcePath("docs/operators.md"), std::ios::binary) << *page;
  }
  EXPECT_EQ(*page, ReadPage())
      << "write it: GPUPOOL_WRITE_DOCS=1 onnx_conformance_test "
         "--gtest_filter=OperatorTableTest.*";
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
