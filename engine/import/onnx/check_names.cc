#include "engine/import/onnx/check_names.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/size_expression.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::onnx_import {
namespace {

// The most names that a message lists.
constexpr size_t kMostListedNames = 32;

// Names in the order of the file, each once.
class NameList {
 public:
  void Add(const std::string& name) {
    if (!name.empty() && known_.insert(name).second) names_.push_back(name);
  }
  bool Has(const std::string& name) const { return known_.contains(name); }
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
  absl::flat_hash_set<std::string> known_;
};

std::string ListedNames(absl::Span<const std::string> names) {
  if (names.empty()) return "none";
  const auto quote = [](std::string* out, const std::string& name) {
    absl::StrAppend(out, "'", name, "'");
  };
  std::string text =
      absl::StrJoin(names.subspan(0, kMostListedNames), ", ", quote);
  if (names.size() > kMostListedNames) {
    absl::StrAppend(&text, " and ", names.size() - kMostListedNames, " more");
  }
  return text;
}

// An option that lists names, and the kind of thing that they name.
struct NamingOption {
  absl::string_view kind;    // "input" or "named dimension"
  absl::string_view option;  // where the wrong names are
};

// Checks that `names` has all of `given`.
absl::Status CheckGiven(const std::set<std::string>& given,
                        const NameList& names, const NamingOption& words) {
  std::vector<std::string> wrong;
  for (const std::string& name : given) {
    if (!names.Has(name)) wrong.push_back(name);
  }
  if (wrong.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      words.option, ": the model has no ", words.kind, " ", ListedNames(wrong),
      "; its ", words.kind, "s are: ", ListedNames(names.names())));
}

template <typename Map>
void AddKeys(const Map& map, std::set<std::string>& keys) {
  for (const auto& entry : map) keys.insert(entry.first);
}

// Adds the names of dimensions in a text that may be an expression.
void AddUsedNames(const std::string& text, NameList& names) {
  const absl::StatusOr<SizeExpression> expression = SizeExpression::Parse(text);
  if (!expression.ok()) return;
  for (const std::string& used : expression->names()) names.Add(used);
}

NameList DimensionNames(const onnx::GraphProto& graph) {
  NameList names;
  for (const auto* ports : {&graph.input(), &graph.output()}) {
    for (const onnx::ValueInfoProto& port : *ports) {
      for (const auto& dim : port.type().tensor_type().shape().dim()) {
        if (dim.has_dim_value()) continue;
        names.Add(dim.dim_param());
        AddUsedNames(dim.dim_param(), names);
      }
    }
  }
  return names;
}

// Returns the inputs to which requests give numbers. Older files list
// initializers as inputs, too.
NameList InputNames(const onnx::GraphProto& graph, const v1::OnnxModel& model) {
  absl::flat_hash_set<absl::string_view> initializers;
  for (const auto& tensor : graph.initializer()) {
    initializers.insert(tensor.name());
  }
  NameList names;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (!initializers.contains(input.name()) ||
        model.bound_inputs().contains(input.name())) {
      names.Add(input.name());
    }
  }
  return names;
}

}  // namespace

absl::Status CheckNames(const v1::OnnxModel& model,
                        const onnx::GraphProto& graph) {
  NameList dimensions = DimensionNames(graph);
  std::set<std::string> derived;
  AddKeys(model.derived_dimensions(), derived);
  const NamingOption dimension{"named dimension", "--dimension (dimensions)"};
  RETURN_IF_ERROR(CheckGiven(derived, dimensions, dimension));
  // An expression may use names to which the model gives no dimension.
  for (const auto& [name, text] : model.derived_dimensions()) {
    AddUsedNames(text, dimensions);
  }
  std::set<std::string> sized;
  AddKeys(model.dimensions(), sized);
  AddKeys(model.served_dimensions(), sized);
  RETURN_IF_ERROR(CheckGiven(sized, dimensions, dimension));

  const NameList inputs = InputNames(graph, model);
  std::set<std::string> unbatched(model.unbatched_inputs().begin(),
                                  model.unbatched_inputs().end());
  RETURN_IF_ERROR(CheckGiven(
      unbatched, inputs, {"input", "--unbatched-input (unbatched_inputs)"}));
  std::set<std::string> padded;
  AddKeys(model.padding(), padded);
  RETURN_IF_ERROR(CheckGiven(padded, inputs, {"input", "--pad (padding)"}));
  std::set<std::string> bound;
  AddKeys(model.bound_inputs(), bound);
  return CheckGiven(bound, inputs, {"input", "--bound (bound_inputs)"});
}

}  // namespace gpupool::engine::onnx_import
