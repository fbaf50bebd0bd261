// Serves the official cases of operators whose results have a computed number
// of rows, and of If and Loop. All their tensors are inputs of requests here,
// so that nothing is computed at import.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/session.h"
#include "engine/tensor/convert.h"
#include "tests/conformance/onnx/cases.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::onnx_import {
namespace {

const std::set<std::string>& Operators() {
  static const auto* const names = new std::set<std::string>{
      "Compress", "If", "Loop", "NonMaxSuppression", "NonZero", "Unique"};
  return *names;
}

using Bytes = std::vector<std::byte>;

Bytes BytesOf(const HostTensor& tensor) {
  Bytes bytes(tensor.shape.bytes(tensor.dtype));
  if (!bytes.empty()) {
    WriteFromDoubles(tensor.dtype, tensor.numbers, 1, bytes.data());
  }
  return bytes;
}

class StagedCases : public ::testing::Test {
 protected:
  void SetUp() override {
    auto session = Session::Create({.device = *ParseDevice("cpu:0"),
                                    .memory_limit_bytes = 1 << 30,
                                    .blob_dir = folder_.path()});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  absl::StatusOr<std::unique_ptr<ServedModel>> Load(const Case& test) {
    std::ifstream in(test.folder + "/model.onnx", std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    v1::ModelSpec spec;
    spec.mutable_onnx()->set_sha256(Sha256Hex(text.str()));
    std::ofstream(absl::StrCat(folder_.path(), "/", spec.onnx().sha256()),
                  std::ios::binary)
        << text.str();
    auto imported = session_->ImportModel(spec, "", {});
    if (!imported.ok()) return imported.status();
    return session_->LoadModel(
        {.name = test.name,
         .manifest_sha256 = imported->manifest_sha256,
         .limit_bytes = imported->plan.inference().peak()});
  }

  static void Compare(const HostTensor& expected, const Bytes& got,
                      const std::vector<int64_t>& shape) {
    const auto dims = expected.shape.dims();
    ASSERT_EQ(shape, std::vector<int64_t>(dims.begin(), dims.end()));
    std::vector<double> numbers(expected.numbers.size());
    ReadAsDoubles(expected.dtype, got.data(), 1, absl::MakeSpan(numbers));
    for (size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_NEAR(numbers[i], expected.numbers[i],
                  1e-6 * (1 + std::abs(expected.numbers[i])));
    }
  }

  static void Ask(ServedModel& model, const DataSet& data) {
    std::vector<Bytes> tensors;
    tensors.reserve(data.inputs.size() + data.outputs.size());
    std::vector<absl::Span<const std::byte>> inputs;
    for (const v1::TensorSpec& spec : model.inputs()) {
      for (const CaseValue& value : data.inputs) {
        if (value.name != spec.name()) continue;
        inputs.push_back(tensors.emplace_back(BytesOf(*value.tensor)));
      }
    }
    std::vector<absl::Span<std::byte>> outputs;
    for (const v1::TensorSpec& spec : model.outputs()) {
      size_t elements = 1;
      for (const auto& axis : spec.variable()) {
        elements *= static_cast<size_t>(axis.maximum());
      }
      outputs.push_back(absl::MakeSpan(tensors.emplace_back(8 * elements)));
    }
    InferenceAnswer answer;
    const absl::Status status =
        model.Infer({.inputs = inputs, .outputs = outputs}, &answer);
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < outputs.size(); ++i) {
      for (const CaseValue& value : data.outputs) {
        if (value.name != model.outputs()[i].name()) continue;
        Compare(*value.tensor, Bytes(outputs[i].begin(), outputs[i].end()),
                answer.shapes[i]);
      }
    }
  }

  ScratchFolder folder_;
  std::unique_ptr<Session> session_;
};

// Returns whether all inputs and outputs are tensors.
bool HasTensorsOnly(const std::vector<DataSet>& sets) {
  for (const DataSet& data : sets) {
    for (const auto* values : {&data.inputs, &data.outputs}) {
      for (const CaseValue& value : *values) {
        if (!value.tensor.has_value()) return false;
      }
    }
  }
  return true;
}

TEST_F(StagedCases, AreServedWithTheExpectedRows) {
  std::set<std::string> seen;
  const std::vector<Case> cases = AllCases();
  if (cases.empty()) GTEST_SKIP() << "the official cases are not installed";
  for (const Case& test : cases) {
    const auto file = OnnxFile::Open(test.folder + "/model.onnx");
    if (test.family != "node" || !file.ok()) continue;
    const std::vector<std::string> operators = OperatorsOf(**file);
    if (operators.size() != 1 || !Operators().contains(operators[0])) continue;
    const auto sets = ReadDataSets(test, **file);
    if (!sets.ok() || !HasTensorsOnly(*sets)) continue;
    SCOPED_TRACE(test.name);
    auto model = Load(test);
    ASSERT_TRUE(model.ok()) << model.status();
    for (const DataSet& data : *sets) Ask(**model, data);
    seen.insert(operators[0]);
  }
  EXPECT_EQ(seen, Operators());
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
