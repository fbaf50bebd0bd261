#include "tests/conformance/onnx/cases.h"

#include <onnx/defs/schema.h>
#include <onnx/onnx-data_pb.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"

namespace gpupool::engine::onnx_import {
namespace {

namespace fs = std::filesystem;

constexpr char kFolder[] = "/usr/share/libonnx-testdata/data";

// Returns the folder that the environment names, or null.
const char* GivenFolder() {
  const char* folder = std::getenv("ONNX_CASES_DIR");
  return folder != nullptr && *folder != '\0' ? folder : nullptr;
}

template <typename Message>
absl::StatusOr<Message> ReadMessage(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)),
                          std::istreambuf_iterator<char>());
  Message message;
  if (!file.is_open() || !message.ParseFromString(bytes)) {
    return absl::DataLossError(absl::StrCat("cannot read ", path));
  }
  return message;
}

absl::StatusOr<std::vector<HostTensor>> Tensors(
    const onnx::SequenceProto& sequence) {
  if (!sequence.sequence_values().empty() || !sequence.map_values().empty()) {
    return absl::UnimplementedError("a sequence of sequences or maps");
  }
  std::vector<HostTensor> tensors;
  for (const auto& tensor : sequence.tensor_values()) {
    ASSIGN_OR_RETURN(tensors.emplace_back(), ReadTensor(tensor, {}));
  }
  return tensors;
}

absl::Status ReadOptional(const std::string& path, CaseValue& value) {
  ASSIGN_OR_RETURN(const auto optional, ReadMessage<onnx::OptionalProto>(path));
  if (optional.has_tensor_value()) {
    ASSIGN_OR_RETURN(value.tensor, ReadTensor(optional.tensor_value(), {}));
  } else if (optional.has_sequence_value()) {
    ASSIGN_OR_RETURN(value.sequence, Tensors(optional.sequence_value()));
  }
  return absl::OkStatus();
}

absl::StatusOr<CaseValue> ReadValue(const std::string& path,
                                    const onnx::ValueInfoProto& info) {
  CaseValue value{.name = info.name()};
  if (info.type().has_optional_type()) {
    RETURN_IF_ERROR(ReadOptional(path, value));
  } else if (info.type().has_sequence_type()) {
    ASSIGN_OR_RETURN(const auto sequence,
                     ReadMessage<onnx::SequenceProto>(path));
    ASSIGN_OR_RETURN(value.sequence, Tensors(sequence));
  } else {
    ASSIGN_OR_RETURN(auto tensor, ReadMessage<onnx::TensorProto>(path));
    // NumPy has no bfloat16, so the files hold its bits as uint16.
    if (info.type().tensor_type().elem_type() == onnx::TensorProto::BFLOAT16 &&
        tensor.data_type() == onnx::TensorProto::UINT16) {
      tensor.set_data_type(onnx::TensorProto::BFLOAT16);
    }
    ASSIGN_OR_RETURN(value.tensor, ReadTensor(tensor, {}));
  }
  return value;
}

absl::StatusOr<DataSet> ReadDataSet(const std::string& folder,
                                    const onnx::GraphProto& graph) {
  std::set<std::string> initializers;
  for (const auto& tensor : graph.initializer()) {
    initializers.insert(tensor.name());
  }
  DataSet data;
  for (const auto& input : graph.input()) {
    if (initializers.contains(input.name())) continue;
    const std::string path =
        absl::StrCat(folder, "/input_", data.inputs.size(), ".pb");
    ASSIGN_OR_RETURN(data.inputs.emplace_back(), ReadValue(path, input));
  }
  for (const auto& output : graph.output()) {
    const std::string path =
        absl::StrCat(folder, "/output_", data.outputs.size(), ".pb");
    ASSIGN_OR_RETURN(data.outputs.emplace_back(), ReadValue(path, output));
  }
  return data;
}

}  // namespace

bool AreCasesDescribed() {
  const auto& versions =
      onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  return GivenFolder() == nullptr &&
         versions.at(onnx::ONNX_DOMAIN).second == kDescribedOperatorSet;
}

std::vector<Case> AllCases() {
  const char* const given = GivenFolder();
  const fs::path folder = given != nullptr ? given : kFolder;
  std::vector<Case> cases;
  for (const char* family :
       {"node", "pytorch-converted", "pytorch-operator", "simple"}) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder / family, ignored)) {
      if (!fs::exists(entry.path() / "model.onnx")) continue;
      cases.push_back(
          {family, entry.path().filename().string(), entry.path().string()});
    }
  }
  std::sort(cases.begin(), cases.end(),
            [](const Case& a, const Case& b) { return a.folder < b.folder; });
  return cases;
}

absl::StatusOr<std::vector<DataSet>> ReadDataSets(const Case& test,
                                                  const OnnxFile& file) {
  std::vector<DataSet> sets;
  for (;;) {
    const std::string folder =
        absl::StrCat(test.folder, "/test_data_set_", sets.size());
    if (!fs::exists(folder)) break;
    ASSIGN_OR_RETURN(sets.emplace_back(),
                     ReadDataSet(folder, file.model().graph()));
  }
  if (sets.empty()) return absl::NotFoundError("the case has no data");
  return sets;
}

std::vector<std::string> OperatorsOf(const OnnxFile& file) {
  std::set<std::string> names;
  for (const auto& node : file.model().graph().node()) {
    names.insert(node.op_type());
  }
  return {names.begin(), names.end()};
}

}  // namespace gpupool::engine::onnx_import
