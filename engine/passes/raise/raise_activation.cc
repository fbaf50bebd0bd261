// Recognises expressions of one value by their results: the expression is
// evaluated at many points and compared with the functions that have an op. The
// form does not matter, so the style of every exporter is covered.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/backends/reference/scalar_functions.h"
#include "engine/base/status_macros.h"
#include "engine/passes/raise/raise.h"

namespace gpupool::engine {
namespace {

using Samples = std::vector<double>;

// The most nodes of an expression. PyTorch's tanh form of GELU has nine.
constexpr size_t kMaxNodes = 14;
constexpr int kSamples = 97;
// Allows for constants that exporters round to float32.
constexpr double kTolerance = 1e-6;

// The farthest sample point. A larger bound could lie beyond the points and
// stay unseen. exp(600) is still finite in double precision.
constexpr double kFar = 600;

// Returns the sample points. Dense ones in -12 .. 12, at irregular places that
// meet no kink, show where functions saturate. A few far ones find bounds such
// as 255. The dense points come first and jump about, because most expressions
// differ from every function at the first of them.
Samples SamplePoints() {
  constexpr int kJump = 41;  // has no common divisor with kSamples
  Samples points;
  for (int i = 0; i < kSamples; ++i) {
    points.push_back(-12 +
                     24 * ((60 + i * kJump) % kSamples + 0.37) / kSamples);
  }
  for (const double far : {40.0, 130.0, 300.0, kFar}) {
    points.push_back(-far);
    points.push_back(far);
  }
  return points;
}

// A function that has its own op.
struct Known {
  Op op;
  Attributes attributes;
};

// Returns the functions to compare with. A list of brace initializers would
// copy each variant, for which the compiler needs gigabytes.
std::vector<Known> MakeKnownFunctions() {
  std::vector<Known> known;
  const auto add = [&known](Op op, Attributes attributes) {
    known.push_back({op, std::move(attributes)});
  };
  const auto unary = [&add](UnaryFunction function, double alpha, double beta) {
    add(Op::kUnary, UnaryAttributes{function, alpha, beta});
  };
  add(Op::kRelu, {});
  add(Op::kSigmoid, {});
  add(Op::kGelu, GeluAttributes{false});
  add(Op::kGelu, GeluAttributes{true});
  unary(UnaryFunction::kSilu, 0, 0);
  unary(UnaryFunction::kHardSwish, 0, 0);
  unary(UnaryFunction::kHardSigmoid, 1.0 / 6, 0.5);
  unary(UnaryFunction::kMish, 0, 0);
  return known;
}

const std::vector<Known>& KnownFunctions() {
  static const std::vector<Known> known = MakeKnownFunctions();
  return known;
}

std::optional<Activation> ActivationOf(Op op, const Attributes& attributes) {
  switch (op) {
    case Op::kRelu:
      return Activation::kRelu;
    case Op::kSigmoid:
      return Activation::kSigmoid;
    case Op::kTanh:
      return Activation::kTanh;
    case Op::kGelu:
      return std::get<GeluAttributes>(attributes).tanh_approximation
                 ? Activation::kGeluTanh
                 : Activation::kGelu;
    default:
      return std::nullopt;
  }
}

double Evaluate(Op op, const Attributes& attributes, double x) {
  if (const auto activation = ActivationOf(op, attributes)) {
    return reference::Activate(*activation, x);
  }
  return reference::Apply(std::get<UnaryAttributes>(attributes), x);
}

// Returns whether the function has no steps that could hide between the sample
// points.
bool IsSmooth(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kAbs:
    case UnaryFunction::kNegate:
    case UnaryFunction::kClip:
    case UnaryFunction::kExp:
    case UnaryFunction::kLog:
    case UnaryFunction::kSqrt:
    case UnaryFunction::kReciprocal:
    case UnaryFunction::kErf:
    case UnaryFunction::kSoftplus:
    case UnaryFunction::kHardSigmoid:
      return true;
    default:
      return false;
  }
}

bool IsSmooth(BinaryFunction function) {
  switch (function) {
    case BinaryFunction::kAdd:
    case BinaryFunction::kSubtract:
    case BinaryFunction::kMultiply:
    case BinaryFunction::kDivide:
    case BinaryFunction::kPower:
    case BinaryFunction::kMinimum:
    case BinaryFunction::kMaximum:
      return true;
    default:
      return false;
  }
}

bool IsPart(const Node& node) {
  switch (node.op) {
    case Op::kAdd:
    case Op::kRelu:
    case Op::kSigmoid:
    case Op::kTanh:
      return true;
    case Op::kUnary:
      return IsSmooth(node.get<UnaryAttributes>().function);
    case Op::kBinary:
      return IsSmooth(node.get<BinaryAttributes>().function);
    default:
      return false;
  }
}

// Returns whether the number is a bound beyond the sample points. The largest
// float, which exporters write for "no bound", is none.
bool IsUnseenBound(double bound) {
  return std::abs(bound) >= kFar &&
         std::abs(bound) < std::numeric_limits<float>::max();
}

// Returns whether a single node is worth comparing: only these two functions
// may equal another op (clip and maximum may be ReLU).
bool IsWorthLooking(const Node& node) {
  if (node.op == Op::kUnary) {
    return node.get<UnaryAttributes>().function == UnaryFunction::kClip;
  }
  return node.op == Op::kBinary &&
         node.get<BinaryAttributes>().function == BinaryFunction::kMaximum;
}

// An expression that ends in a node. It grows backwards, value by value.
class Expression {
 public:
  Expression(const Sweep& sweep, const Node& last)
      : sweep_(sweep), type_(sweep.value(last.outputs[0]).type()) {
    valid_ = Take(last);
  }

  // Returns the only value that it depends on; invalid when there are several.
  ValueId argument() const {
    return open_.size() == 1 && sweep_.value(open_[0]).type() == type_
               ? open_[0]
               : ValueId{};
  }
  size_t size() const { return nodes_.size(); }
  const Node& last() const { return *nodes_[0]; }

  // Adds the node that makes an open value which nobody else reads. Returns
  // false when there is none.
  bool Grow() {
    if (!valid_ || nodes_.size() >= kMaxNodes) return false;
    for (size_t i = 0; i < open_.size(); ++i) {
      const ValueId id = open_[i];
      // All readers must be in the expression, or the value is needed anyway.
      const Node* node = sweep_.Producer(id);
      if (node == nullptr || !IsPart(*node) ||
          sweep_.uses(id) != reads_[id.index] ||
          sweep_.value(id).type() != type_) {
        continue;
      }
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
      valid_ = Take(*node);
      return valid_;
    }
    return false;
  }

  // Returns its value at argument x. Nodes were added from the last to the
  // first, so walking backwards computes inputs before their readers.
  double At(double x) const {
    absl::flat_hash_map<int32_t, double> values{{argument().index, x}};
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      values[(*node)->outputs[0].index] = Compute(**node, values);
    }
    return values[nodes_[0]->outputs[0].index];
  }

 private:
  bool Take(const Node& node) {
    if (node.outputs.size() != 1 || HasUnseenBound(node)) return false;
    nodes_.push_back(&node);
    for (const ValueId id : node.inputs) {
      if (sweep_.Number(id).has_value()) continue;
      ++reads_[id.index];
      if (std::find(open_.begin(), open_.end(), id) == open_.end()) {
        open_.push_back(id);
      }
    }
    return true;
  }

  bool HasUnseenBound(const Node& node) const {
    if (node.op == Op::kUnary) {
      const auto& unary = node.get<UnaryAttributes>();
      return unary.function == UnaryFunction::kClip &&
             (IsUnseenBound(unary.alpha) || IsUnseenBound(unary.beta));
    }
    if (node.op != Op::kBinary) return false;
    const BinaryFunction function = node.get<BinaryAttributes>().function;
    if (function != BinaryFunction::kMinimum &&
        function != BinaryFunction::kMaximum) {
      return false;
    }
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [this](ValueId id) {
                         return IsUnseenBound(sweep_.Number(id).value_or(0));
                       });
  }

  double Compute(const Node& node,
                 const absl::flat_hash_map<int32_t, double>& values) const {
    std::array<double, 2> in{};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto found = values.find(node.inputs[i].index);
      in[i] = found != values.end() ? found->second
                                    : *sweep_.Number(node.inputs[i]);
    }
    if (node.op == Op::kAdd) return in[0] + in[1];
    if (node.op != Op::kBinary)
      return Evaluate(node.op, node.attributes, in[0]);
    return reference::Apply(node.get<BinaryAttributes>().function, type_.dtype,
                            in[0], in[1]);
  }

  const Sweep& sweep_;
  const TensorType type_;
  bool valid_ = false;
  std::vector<const Node*> nodes_;  // the last one first
  ValueIds open_;                   // values that it depends on so far
  absl::flat_hash_map<int32_t, int> reads_;
};

// Returns the first function that equals the expression at all points. Stops at
// the first point where none does.
const Known* Recognise(const Expression& expression) {
  static const Samples points = SamplePoints();
  std::vector<const Known*> equal;
  for (const Known& known : KnownFunctions()) equal.push_back(&known);
  for (const double x : points) {
    const double value = expression.At(x);
    const double tolerance = kTolerance * (1 + std::abs(x));
    const auto differs = [&](const Known* known) {
      const double wanted = Evaluate(known->op, known->attributes, x);
      return !(std::abs(value - wanted) <= tolerance);
    };
    equal.erase(std::remove_if(equal.begin(), equal.end(), differs),
                equal.end());
    if (equal.empty()) return nullptr;
  }
  return equal.front();
}

}  // namespace

absl::Status RaiseActivation(Sweep& sweep, Node& node) {
  if (!IsPart(node) || !IsFloating(sweep.value(node.outputs[0]).dtype)) {
    return absl::OkStatus();
  }
  Expression expression(sweep, node);
  const Known* known = nullptr;
  ValueId x;
  do {
    const bool looks = expression.size() > 1 || IsWorthLooking(node);
    if (!looks || !expression.argument().valid()) continue;
    known = Recognise(expression);
    x = expression.argument();
  } while (known == nullptr && expression.Grow());
  if (known == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId y,
                   sweep.Emit(known->op, {x}, known->attributes));
  sweep.Replace(node, y);
  return absl::OkStatus();
}

}  // namespace gpupool::engine
