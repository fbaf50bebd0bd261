#include "engine/import/onnx/file/describe_file.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/file/tensor_data.h"

namespace gpupool::engine::onnx_import {
namespace {

struct Stored {
  uint64_t tensors = 0;
  uint64_t elements = 0;
};

class Description {
 public:
  explicit Description(const OnnxFile& file) {
    AddGraph(file.model().graph());
    for (const auto& function : file.model().functions()) {
      AddNodes(function.node());
    }
  }

  void Write(v1::OnnxFacts& facts) const {
    for (const auto& [name, nodes] : LargestFirst(operators_)) {
      v1::OperatorCount* count = facts.add_operators();
      count->set_name(name);
      count->set_nodes(nodes);
    }
    std::map<std::string, uint64_t> elements;
    for (const auto& [type, stored] : stored_) elements[type] = stored.elements;
    for (const auto& [type, unused] : LargestFirst(elements)) {
      const Stored& stored = stored_.at(type);
      v1::StoredTensors* tensors = facts.add_stored();
      tensors->set_type(type);
      tensors->set_tensors(stored.tensors);
      tensors->set_elements(stored.elements);
    }
  }

 private:
  using Counts = std::vector<std::pair<std::string, uint64_t>>;

  static Counts LargestFirst(const std::map<std::string, uint64_t>& counts) {
    Counts sorted(counts.begin(), counts.end());
    std::stable_sort(
        sorted.begin(), sorted.end(),
        [](const auto& a, const auto& b) { return a.second > b.second; });
    return sorted;
  }

  template <typename Nodes>
  void AddNodes(const Nodes& nodes) {
    for (const onnx::NodeProto& node : nodes) {
      const absl::string_view domain = NormalDomain(node.domain());
      ++operators_[domain.empty() ? node.op_type()
                                  : absl::StrCat(domain, ".", node.op_type())];
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) AddGraph(attribute.g());
        for (const auto& graph : attribute.graphs()) AddGraph(graph);
      }
    }
  }

  void AddGraph(const onnx::GraphProto& graph) {
    AddNodes(graph.node());
    for (const auto& tensor : graph.initializer()) {
      Stored& stored = stored_[std::string(OnnxTypeName(tensor.data_type()))];
      ++stored.tensors;
      stored.elements += Elements(tensor);
    }
  }

  // Returns the number of elements, or 0 if it is out of range.
  static uint64_t Elements(const onnx::TensorProto& tensor) {
    uint64_t elements = 1;
    for (const int64_t dim : tensor.dims()) {
      if (dim < 0 || __builtin_mul_overflow(
                         elements, static_cast<uint64_t>(dim), &elements)) {
        return 0;
      }
    }
    return elements;
  }

  std::map<std::string, uint64_t> operators_;
  std::map<std::string, Stored> stored_;
};

}  // namespace

v1::OnnxFacts DescribeFile(const OnnxFile& file) {
  const onnx::ModelProto& model = file.model();
  v1::OnnxFacts facts;
  facts.set_bytes(file.bytes());
  facts.set_ir_version(model.ir_version());
  for (const auto& import : model.opset_import()) {
    v1::OperatorSet* set = facts.add_operator_sets();
    const absl::string_view domain = NormalDomain(import.domain());
    set->set_domain(domain.empty() ? "ai.onnx" : std::string(domain));
    set->set_version(import.version());
  }
  facts.set_producer(std::string(absl::StripAsciiWhitespace(
      absl::StrCat(model.producer_name(), " ", model.producer_version()))));
  Description(file).Write(facts);
  return facts;
}

}  // namespace gpupool::engine::onnx_import
