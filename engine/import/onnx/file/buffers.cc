#include "engine/import/onnx/file/buffers.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "engine/base/name_pattern.h"
#include "engine/import/onnx/file/tensor_data.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::TensorProto;

// Numbers from here down hide scores from a softmax.
constexpr double kHidden = -1e4;
// Most numbers of a table that is read. Larger ones are embeddings.
constexpr int64_t kMaxNumbers = int64_t{1} << 22;
// Most values that are followed from one tensor.
constexpr int kMaxFollowed = 1000;
// Most readers that are visited, and numbers that are read, for one file. The
// tensors after them are taken for parameters unless their names say otherwise.
constexpr int64_t kMaxVisited = int64_t{1} << 22;
constexpr int64_t kMaxRead = int64_t{1} << 26;
// Fewest rows of a table that is compared with sines and cosines.
constexpr size_t kMinPositions = 8;
// The error of a recurrence over numbers in float16, and in bfloat16.
constexpr double kOscillationError = 5e-3;
constexpr double kBfloatOscillationError = 4e-2;

// A node that reads the tensor, and the position of the input; node is null
// where that is not known: in subgraphs and outputs of the model.
struct Use {
  const onnx::NodeProto* node = nullptr;
  int input = 0;
};

struct Facts {
  const TensorProto& tensor;
  // The readers, behind nodes that only move or cast numbers.
  std::vector<Use> uses;
  // The readers of products with the tensor, and of sums with it.
  std::vector<Use> product_uses;
  std::vector<Use> sum_uses;
  HostTensor numbers;  // empty unless the uses may be those of a table

  bool has_numbers() const { return !numbers.numbers.empty(); }
};

bool Is(const Use& use, std::initializer_list<absl::string_view> operators) {
  if (use.node == nullptr) return false;
  return std::find(operators.begin(), operators.end(), use.node->op_type()) !=
         operators.end();
}

template <typename Condition>
bool All(const std::vector<Use>& uses, Condition condition) {
  return !uses.empty() && std::all_of(uses.begin(), uses.end(), condition);
}

bool MovesOrCasts(const onnx::NodeProto& node) {
  static const auto* const kOperators = new absl::flat_hash_set<std::string>{
      "Cast",  "Expand",  "Flatten", "Identity",  "Reshape",
      "Slice", "Squeeze", "Tile",    "Transpose", "Unsqueeze"};
  return kOperators->contains(node.op_type());
}

bool Multiplies(const onnx::NodeProto& node) {
  return node.op_type() == "Mul" || node.op_type() == "MatMul" ||
         node.op_type() == "Einsum";
}

// The readers of every value of the main graph.
class Readers {
 public:
  explicit Readers(const onnx::GraphProto& graph) {
    for (const auto& node : graph.node()) {
      for (int i = 0; i < node.input_size(); ++i) {
        readers_[node.input(i)].push_back({&node, i});
      }
      AddUnknown(node);
    }
    for (const auto& output : graph.output()) {
      readers_[output.name()].push_back({});
    }
  }

  // Returns the readers of a value, behind nodes that `passes` lets through.
  template <typename Passes>
  std::vector<Use> Behind(const std::string& name, Passes passes) {
    std::vector<Use> uses;
    std::vector<std::string> names{name};
    for (size_t i = 0; i < names.size() && i < kMaxFollowed; ++i) {
      const auto found = readers_.find(names[i]);
      if (found == readers_.end()) continue;
      for (const Use& use : found->second) {
        if (++visited_ > kMaxVisited) return {Use()};
        if (use.node != nullptr && use.node->output_size() > 0 && passes(use)) {
          names.push_back(use.node->output(0));
        } else {
          uses.push_back(use);
        }
      }
    }
    // With more nodes nothing is known.
    if (names.size() > kMaxFollowed) uses.push_back({});
    return uses;
  }

 private:
  // Adds what the subgraphs of a node read from outside.
  void AddUnknown(const onnx::NodeProto& node) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) AddUnknown(attribute.g());
      for (const auto& graph : attribute.graphs()) AddUnknown(graph);
    }
  }
  void AddUnknown(const onnx::GraphProto& graph) {
    for (const auto& node : graph.node()) {
      for (const std::string& input : node.input()) {
        readers_[input].push_back({});
      }
      AddUnknown(node);
    }
  }

  absl::flat_hash_map<std::string, std::vector<Use>> readers_;
  int64_t visited_ = 0;
};

struct NameRule {
  absl::string_view pattern;
  absl::string_view reason;
};
constexpr NameRule kNames[] = {
    {"*position_ids", "its name is that of position numbers"},
    {"*inv_freq", "its name is that of rotary frequencies"},
    {"*rotary*freqs", "its name is that of rotary frequencies"},
    {"*freqs_cis", "its name is that of rotary frequencies"},
    {"*cos_cached", "its name is that of a rotary table"},
    {"*sin_cached", "its name is that of a rotary table"},
    {"*rotary*cos", "its name is that of a rotary table"},
    {"*rotary*sin", "its name is that of a rotary table"},
    {"*causal_mask", "its name is that of a mask"},
    {"*attention_mask", "its name is that of a mask"},
    {"*attn_mask", "its name is that of a mask"},
    {"*.mask", "its name is that of a mask"},
    {"*masked_bias", "its name is that of a mask"},
    {"*relative_position_index", "its name is that of position numbers"},
    {"*relative_coords_table", "its name is that of position numbers"},
    {"*anchor_grid", "its name is that of anchors"},
    {"*anchors", "its name is that of anchors"},
    {"*image_mean", "its name is that of a statistic of the data"},
    {"*image_std", "its name is that of a statistic of the data"},
    {"*pixel_mean", "its name is that of a statistic of the data"},
    {"*pixel_std", "its name is that of a statistic of the data"},
};

std::string ByName(const Facts& facts) {
  for (const NameRule& rule : kNames) {
    if (MatchesPattern(facts.tensor.name(), rule.pattern)) {
      return std::string(rule.reason);
    }
  }
  return "";
}

std::string ByShape(const Facts& facts) {
  const auto& dims = facts.tensor.dims();
  const bool mask = dims.size() == 4 && dims[0] == 1 && dims[1] == 1 &&
                    dims[2] > 1 && dims[2] == dims[3];
  if (!mask || !MatchesPattern(facts.tensor.name(), "*.bias")) return "";
  return "a bias of shape [1, 1, n, n] is a causal mask";
}

// Returns whether the input decides something instead of being computed with.
bool Decides(const Use& use) {
  if (Is(use,
         {"And", "Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less",
          "LessOrEqual", "Mod", "Not", "Or", "Range", "Trilu", "Xor"})) {
    return true;
  }
  if (use.input == 0 && Is(use, {"Where"})) return true;
  // Bounds, exponents, scales and the like.
  return use.input > 0 &&
         Is(use, {"Clip", "OneHot", "Pad", "Pow", "Resize", "Upsample"});
}

std::string ByDecision(const Facts& facts) {
  return All(facts.uses, Decides)
             ? "it is only a condition, a bound or an exponent"
             : "";
}

bool IsSingle(const TensorProto& tensor) {
  return std::all_of(tensor.dims().begin(), tensor.dims().end(),
                     [](int64_t dim) { return dim == 1; });
}

// Returns the reason for divisors and for single numbers, such as the epsilon
// in the square root of a norm.
std::string ByArithmetic(const Facts& facts) {
  const auto divides = [](const Use& use) {
    return use.input == 1 && Is(use, {"Div"});
  };
  if (All(facts.uses, divides)) return "it is only divided by";
  if (!IsSingle(facts.tensor)) return "";
  const auto chooses = [](const Use& use) {
    return Is(use, {"Max", "Min", "Where"});
  };
  if (All(facts.uses, chooses)) return "it is a single number to choose";
  const auto adds = [](const Use& use) { return Is(use, {"Add"}); };
  const auto inverts = [&](const Use& use) {
    return divides(use) ||
           (use.input == 0 && Is(use, {"Log", "Pow", "Reciprocal", "Sqrt"}));
  };
  const bool epsilon = All(facts.uses, adds) && All(facts.sum_uses, inverts);
  return epsilon ? "it is the epsilon of a norm" : "";
}

std::string BySineAndCosine(const Facts& facts) {
  const auto periodic = [](const Use& use) { return Is(use, {"Sin", "Cos"}); };
  if (All(facts.uses, periodic)) return "only Sin and Cos read it";
  // A learned layer before a sine has no cosine, and usually a bias.
  const auto& uses = facts.product_uses;
  const bool both = All(uses, periodic) &&
                    std::any_of(uses.begin(), uses.end(),
                                [](const Use& u) { return Is(u, {"Sin"}); }) &&
                    std::any_of(uses.begin(), uses.end(),
                                [](const Use& u) { return Is(u, {"Cos"}); });
  return both ? "it is the frequencies of sines and cosines" : "";
}

bool MayBeTable(const Facts& facts) {
  return All(facts.uses, [](const Use& use) {
    return Is(use, {"Add", "Concat", "Gather", "Mul", "Sub", "Where"});
  });
}

std::string ByHiddenScores(const Facts& facts) {
  if (!facts.has_numbers()) return "";
  bool hidden = false;
  for (const double x : facts.numbers.numbers) {
    if (x != 0 && !(x <= kHidden)) return "";
    hidden |= x != 0;
  }
  return hidden ? "its numbers are 0 or at most -10000, as in a mask" : "";
}

std::string ByTriangle(const Facts& facts) {
  if (!facts.has_numbers()) return "";
  const Shape& shape = facts.numbers.shape;
  if (shape.rank() < 2) return "";
  const int64_t size = shape[shape.rank() - 1];
  if (size < 2 || shape[shape.rank() - 2] != size) return "";
  const auto& numbers = facts.numbers.numbers;
  // Returns whether exactly the cells on one side of a diagonal are 1.
  const auto fits = [&](int64_t sign, int64_t offset) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const bool one = sign * (at / size % size - at % size) >= offset;
      if (numbers[i] != (one ? 1 : 0)) return false;
    }
    return true;
  };
  for (const int64_t sign : {1, -1}) {
    if (fits(sign, 0) || fits(sign, 1)) {
      return "it is a triangle of ones, as in a causal mask";
    }
  }
  return "";
}

// Returns whether column after column is a sine or a cosine of the row's
// number: then x[t-1] + x[t+1] is the same multiple of x[t] everywhere.
std::string ByOscillation(const Facts& facts) {
  if (!facts.has_numbers()) return "";
  const auto& numbers = facts.numbers.numbers;
  const Shape& shape = facts.numbers.shape;
  if (shape.rank() < 2 || shape[shape.rank() - 1] < 2) return "";
  const auto width = static_cast<size_t>(shape[shape.rank() - 1]);
  const size_t rows = numbers.size() / width;
  if (rows < kMinPositions) return "";
  double largest = 0, change = 0;
  for (size_t i = 0; i < numbers.size(); ++i) {
    largest = std::max(largest, std::abs(numbers[i]));
    change = std::max(change, std::abs(numbers[i] - numbers[i % width]));
  }
  if (largest < 0.9 || largest > 1.001 || change < 0.5) return "";
  const bool bfloat = facts.tensor.data_type() == TensorProto::BFLOAT16;
  const double allowed = bfloat ? kBfloatOscillationError : kOscillationError;
  for (size_t i = width; i + 2 * width < numbers.size(); ++i) {
    const double before = numbers[i - width], now = numbers[i];
    const double next = numbers[i + width], last = numbers[i + 2 * width];
    const double error = (before + next) * next - (now + last) * now;
    if (!(std::abs(error) <= allowed)) return "";
  }
  return "its columns are sines and cosines of positions";
}

using Rule = std::string (*)(const Facts&);
constexpr Rule kRules[] = {ByName,       ByShape,         ByDecision,
                           ByArithmetic, BySineAndCosine, ByHiddenScores,
                           ByTriangle,   ByOscillation};

// Collects the facts about the tensors of a file.
class Collector {
 public:
  Collector(const onnx::ModelProto& model, const ExternalFiles& external)
      : readers_(model.graph()), external_(external) {
    for (const auto& node : model.graph().node()) {
      periodic_ |= node.op_type() == "Sin" || node.op_type() == "Cos";
    }
  }

  Facts FactsOf(const TensorProto& tensor) {
    const auto moved = [](const Use& use) {
      return use.input == 0 && MovesOrCasts(*use.node);
    };
    Facts facts{.tensor = tensor,
                .uses = readers_.Behind(tensor.name(), moved)};
    if (periodic_) {
      facts.product_uses = readers_.Behind(tensor.name(), [&](const Use& use) {
        return moved(use) || Multiplies(*use.node) || Is(use, {"Concat"});
      });
    }
    if (IsSingle(tensor)) {
      facts.sum_uses = readers_.Behind(tensor.name(), [&](const Use& use) {
        return moved(use) || Is(use, {"Add"});
      });
    }
    if (MayBeTable(facts)) ReadNumbers(facts);
    return facts;
  }

 private:
  void ReadNumbers(Facts& facts) {
    const auto type = DescribeTensor(facts.tensor, external_);
    if (!type.ok() || type->shape.elements() > kMaxNumbers) return;
    read_ += type->shape.elements();
    if (read_ > kMaxRead) return;
    auto numbers = ReadTensor(facts.tensor, external_);
    if (numbers.ok()) facts.numbers = *std::move(numbers);
  }

  Readers readers_;
  const ExternalFiles& external_;
  bool periodic_ = false;  // whether the model has sines or cosines
  int64_t read_ = 0;
};

}  // namespace

std::vector<Buffer> FindBuffers(const onnx::ModelProto& model,
                                const ExternalFiles& external) {
  Collector collector(model, external);
  std::vector<Buffer> buffers;
  for (const TensorProto& tensor : model.graph().initializer()) {
    if (!IsFloatingType(tensor.data_type()) || tensor.dims_size() == 0) {
      continue;
    }
    const Facts facts = collector.FactsOf(tensor);
    for (const Rule rule : kRules) {
      std::string reason = rule(facts);
      if (reason.empty()) continue;
      buffers.push_back({tensor.name(), std::move(reason)});
      break;
    }
  }
  return buffers;
}

}  // namespace gpupool::engine::onnx_import
