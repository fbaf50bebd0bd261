#include "engine/import/onnx/file/graph_check.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/names.h"

namespace gpupool::engine::onnx_import {
namespace {

using NameSet = absl::flat_hash_set<absl::string_view>;

// Returns the length of the UTF-8 sequence at the begin of `text`, or 0 when
// there is none (RFC 3629, section 4). Does not reject overlong forms and
// surrogates.
size_t SequenceLength(absl::string_view text) {
  const auto byte = [&text](size_t i) { return static_cast<uint8_t>(text[i]); };
  size_t length = 0;
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xc2 && byte(0) < 0xe0) length = 2;
  if (byte(0) >= 0xe0 && byte(0) < 0xf0) length = 3;
  if (byte(0) >= 0xf0 && byte(0) < 0xf5) length = 4;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

// Checks a name, which may go into logs, manifests and safetensors files.
absl::Status CheckName(absl::string_view name) {
  if (name.size() > kMaxNameLength) {
    return Refuse("a name has ", name.size(), " bytes; the limit is ",
                  kMaxNameLength);
  }
  for (absl::string_view rest = name; !rest.empty();) {
    const size_t length = SequenceLength(rest);
    if (length == 0 || static_cast<uint8_t>(rest[0]) < 0x20) {
      return Refuse("the name '", absl::CHexEscape(name),
                    "' is not printable UTF-8 text");
    }
    rest.remove_prefix(length);
  }
  return absl::OkStatus();
}

// The names that a graph defines, with the graphs around it.
struct Scope {
  const Scope* outer = nullptr;
  NameSet names;

  bool Knows(absl::string_view name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->outer) {
      if (scope->names.contains(name)) return true;
    }
    return false;
  }
  absl::Status Define(absl::string_view name, absl::string_view what) {
    RETURN_IF_ERROR(CheckName(name));
    if (names.insert(name).second) return absl::OkStatus();
    return Refuse(what, " '", name, "' is defined twice in one graph");
  }
};

class Checker {
 public:
  explicit Checker(const onnx::ModelProto& model) : model_(model) {}

  absl::Status Check() {
    if (model_.ir_version() < kMinIrVersion ||
        model_.ir_version() > kMaxIrVersion) {
      return Refuse("IR version ", model_.ir_version(), " is not from ",
                    kMinIrVersion, " to ", kMaxIrVersion);
    }
    if (!model_.has_graph()) return Refuse("the model has no graph");
    RETURN_IF_ERROR(CheckOpsets(model_.opset_import(), UsesStandardDomain()));
    RETURN_IF_ERROR(CheckGraph(model_.graph(), nullptr, 0));
    return CheckFunctions();
  }

 private:
  bool UsesStandardDomain() const {
    const auto& nodes = model_.graph().node();
    return std::any_of(nodes.begin(), nodes.end(), [](const auto& node) {
      return NormalDomain(node.domain()).empty();
    });
  }

  template <typename Imports>
  absl::Status CheckOpsets(const Imports& imports, bool needs_default) {
    NameSet domains;
    for (const auto& import : imports) {
      RETURN_IF_ERROR(CheckName(import.domain()));
      const absl::string_view domain = NormalDomain(import.domain());
      if (!domains.insert(domain).second) {
        return Refuse("the operator set '", domain, "' is imported twice");
      }
      const int64_t low = domain.empty() ? kMinOpset : 1;
      const int64_t high = domain.empty() ? kMaxOpset : 1 << 20;
      if (import.version() < low || import.version() > high) {
        return Refuse("operator set '", domain, "' version ", import.version(),
                      " is not from ", low, " to ", high,
                      "; convert the model to a version in between");
      }
    }
    if (!needs_default || domains.contains("")) return absl::OkStatus();
    return Refuse("the model imports no version of the operator set ai.onnx");
  }

  absl::Status CheckGraph(const onnx::GraphProto& graph, const Scope* outer,
                          int depth) {
    if (depth > kMaxSubgraphDepth) {
      return Refuse("subgraphs nest deeper than ", kMaxSubgraphDepth,
                    " levels");
    }
    Scope scope{outer, {}};
    for (const auto& input : graph.input()) {
      if (input.name().empty()) return Refuse("an input has no name");
      RETURN_IF_ERROR(scope.Define(input.name(), "input"));
    }
    // In IR 3, initializers are inputs, too.
    NameSet initializers;
    initializers_ += graph.initializer_size();
    if (initializers_ > kMaxInitializers) {
      return Refuse("the model has more than ", kMaxInitializers,
                    " initializers");
    }
    for (const auto& tensor : graph.initializer()) {
      if (tensor.name().empty()) return Refuse("an initializer has no name");
      if (!initializers.insert(tensor.name()).second) {
        return Refuse("initializer '", tensor.name(), "' is defined twice");
      }
      if (scope.names.contains(tensor.name())) continue;
      RETURN_IF_ERROR(scope.Define(tensor.name(), "initializer"));
    }
    if (graph.sparse_initializer_size() > 0) {
      return Refuse("sparse initializers are not supported; make them dense");
    }
    RETURN_IF_ERROR(CheckNodes(graph.node(), scope, depth));
    NameSet outputs;
    for (const auto& output : graph.output()) {
      if (!scope.Knows(output.name())) {
        return Refuse("output '", output.name(), "' is written by no node");
      }
      if (!outputs.insert(output.name()).second) {
        return Refuse("output '", output.name(), "' is declared twice");
      }
    }
    return absl::OkStatus();
  }

  template <typename Nodes>
  absl::Status CheckNodes(const Nodes& nodes, Scope& scope, int depth) {
    for (const onnx::NodeProto& node : nodes) {
      if (++nodes_ > kMaxNodes) {
        return Refuse("the model has more than ", kMaxNodes, " nodes");
      }
      RETURN_IF_ERROR(CheckName(node.op_type()));
      RETURN_IF_ERROR(CheckName(node.domain()));
      RETURN_IF_ERROR(CheckName(node.name()));
      if (node.op_type().empty()) {
        return Refuse("node '", node.name(), "' has no operator");
      }
      for (const std::string& input : node.input()) {
        if (input.empty() || scope.Knows(input)) continue;
        return Refuse(NodeTitle(node), " reads '", input,
                      "', which nothing before it defines");
      }
      // Attributes come before outputs: a subgraph cannot read its own node's
      // outputs.
      RETURN_IF_ERROR(CheckAttributes(node, scope, depth));
      for (const std::string& output : node.output()) {
        if (output.empty()) continue;
        RETURN_IF_ERROR(scope.Define(output, "value"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckAttributes(const onnx::NodeProto& node, const Scope& scope,
                               int depth) {
    NameSet names;
    for (const auto& attribute : node.attribute()) {
      RETURN_IF_ERROR(CheckName(attribute.name()));
      if (!names.insert(attribute.name()).second) {
        return Refuse(NodeTitle(node), ": attribute '", attribute.name(),
                      "' is given twice");
      }
      if (attribute.has_g()) {
        RETURN_IF_ERROR(CheckGraph(attribute.g(), &scope, depth + 1));
      }
      for (const auto& graph : attribute.graphs()) {
        RETURN_IF_ERROR(CheckGraph(graph, &scope, depth + 1));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckFunctions() {
    for (const auto& function : model_.functions()) {
      RETURN_IF_ERROR(CheckName(function.name()));
      RETURN_IF_ERROR(CheckName(function.domain()));
      RETURN_IF_ERROR(CheckOpsets(function.opset_import(), false));
      if (!functions_
               .try_emplace({NormalDomain(function.domain()), function.name()},
                            &function)
               .second) {
        return Refuse("function '", function.name(), "' is defined twice");
      }
      Scope scope;
      for (const std::string& input : function.input()) {
        RETURN_IF_ERROR(scope.Define(input, "function input"));
      }
      // A function sees no names around it.
      RETURN_IF_ERROR(CheckNodes(function.node(), scope, 0));
      for (const std::string& output : function.output()) {
        if (scope.Knows(output)) continue;
        return Refuse("function '", function.name(), "': output '", output,
                      "' is written by no node");
      }
    }
    for (const auto& function : model_.functions()) {
      RETURN_IF_ERROR(CheckCalls(function, 0));
    }
    return absl::OkStatus();
  }

  // Visits calls depth first. Meeting a function whose visit has not ended
  // means that it calls itself.
  absl::Status CheckCalls(const onnx::FunctionProto& function, int depth) {
    const auto [visit, first] = visits_.try_emplace(&function, true);
    if (!first) {
      if (!visit->second) return absl::OkStatus();
      return Refuse("function '", function.name(), "' calls itself");
    }
    if (depth > kMaxSubgraphDepth) {
      return Refuse("function '", function.name(), "': calls nest deeper than ",
                    kMaxSubgraphDepth, " levels");
    }
    RETURN_IF_ERROR(CheckCallsOf(function.node(), depth));
    visits_[&function] = false;
    return absl::OkStatus();
  }

  template <typename Nodes>
  absl::Status CheckCallsOf(const Nodes& nodes, int depth) {
    for (const onnx::NodeProto& node : nodes) {
      const auto called =
          functions_.find({NormalDomain(node.domain()), node.op_type()});
      if (called != functions_.end()) {
        RETURN_IF_ERROR(CheckCalls(*called->second, depth + 1));
      }
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) {
          RETURN_IF_ERROR(CheckCallsOf(attribute.g().node(), depth));
        }
        for (const auto& graph : attribute.graphs()) {
          RETURN_IF_ERROR(CheckCallsOf(graph.node(), depth));
        }
      }
    }
    return absl::OkStatus();
  }

  const onnx::ModelProto& model_;
  int64_t nodes_ = 0;
  int64_t initializers_ = 0;
  absl::flat_hash_map<std::pair<absl::string_view, absl::string_view>,
                      const onnx::FunctionProto*>
      functions_;
  // Whether the visit has not ended yet.
  absl::flat_hash_map<const onnx::FunctionProto*, bool> visits_;
};

}  // namespace

absl::Status CheckModel(const onnx::ModelProto& model) {
  return Checker(model).Check();
}

}  // namespace gpupool::engine::onnx_import
