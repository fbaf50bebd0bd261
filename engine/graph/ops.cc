#include "engine/graph/ops.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine {
namespace {

namespace rules = type_rules;

using TypeRule = rules::Result (*)(Op, const Attributes&, rules::Inputs);

// Returns the position of T in the alternatives of Attributes.
template <typename T, typename... Alternatives>
consteval size_t PositionIn(const std::variant<Alternatives...>*) {
  constexpr bool kSameType[] = {std::is_same_v<T, Alternatives>...};
  size_t position = 0;
  while (!kSameType[position]) ++position;
  return position;
}

template <typename T>
constexpr size_t kIndexOf =
    PositionIn<T>(static_cast<const Attributes*>(nullptr));

struct Row {
  OpInfo info;
  size_t attributes;  // index of the alternative that the op carries
  TypeRule rule;
};

// The vocabulary of the table.
using enum LayoutRule;
using enum AutocastRule;
constexpr uint32_t kPure = 1;
constexpr uint32_t kEmpty = 2;
constexpr uint32_t kFusable = 4;

constexpr Arity Exactly(int count) { return {count, count}; }
constexpr Arity FromTo(int least, int most) { return {least, most}; }
constexpr Arity AtLeast(int least) { return {least, -1}; }

constexpr bool IsRule(absl::string_view gradient) {
  return gradient != "NoGradient";
}

constexpr std::array<Row, kOpCount> kTable = {{
#define GPUPOOL_OP(enumerator, text, ins, outs, carried, type_rule, placing, \
                   overwritten, traits, cost, cast, gradient, ...)           \
  {{.op = Op::k##enumerator,                                                 \
    .name = text,                                                            \
    .inputs = ins,                                                           \
    .outputs = outs,                                                         \
    .layout = placing,                                                       \
    .in_place_inputs = overwritten,                                          \
    .pure = ((traits)&kPure) != 0,                                           \
    .takes_empty = ((traits)&kEmpty) != 0,                                   \
    .fusable = ((traits)&kFusable) != 0,                                     \
    .autocast = cast,                                                        \
    .differentiable = IsRule(#gradient)},                                    \
   kIndexOf<carried>,                                                        \
   rules::type_rule},
#include "engine/graph/op_table.inc"
}};

const Row& RowOf(Op op) { return kTable[static_cast<size_t>(op)]; }

}  // namespace

const OpInfo& Info(Op op) { return RowOf(op).info; }

bool IsWeightInput(Op op, size_t input) {
  return (op == Op::kConv2d || op == Op::kConv2dInputGrad ||
          op == Op::kQuantizedConv2d) &&
         input == 1;
}

bool IsWeightOutput(Op op, size_t output) {
  return op == Op::kConv2dWeightGrad && output == 0;
}

OptimizerAttributes OptimizerOf(const Attributes& attributes) {
  return std::visit(
      [](const auto& carried) -> OptimizerAttributes {
        using T = std::decay_t<decltype(carried)>;
        if constexpr (std::is_constructible_v<OptimizerAttributes, T>) {
          return carried;
        } else {
          GPUPOOL_CHECK(false);
          return {};
        }
      },
      attributes);
}

Op StepOf(const OptimizerAttributes& optimizer) {
  const Attributes carried =
      std::visit([](const auto& a) { return Attributes(a); }, optimizer);
  const auto row =
      std::find_if(kTable.begin(), kTable.end(), [&](const Row& candidate) {
        return candidate.attributes == carried.index();
      });
  GPUPOOL_CHECK(row != kTable.end());
  return row->info.op;
}

absl::StatusOr<TensorTypes> InferTypes(Op op, const Attributes& attributes,
                                       absl::Span<const TensorType> inputs) {
  const Row& row = RowOf(op);
  const int count = static_cast<int>(inputs.size());
  const Arity& inputs_taken = row.info.inputs;
  if (count < inputs_taken.least ||
      (inputs_taken.most >= 0 && count > inputs_taken.most)) {
    return rules::Refuse(op, "has ", count, " inputs");
  }
  if (attributes.index() != row.attributes) {
    return rules::Refuse(op, "carries the attributes of another op");
  }
  for (const TensorType& input : inputs) {
    if (input.shape.elements() == 0 && !row.info.takes_empty) {
      return rules::Refuse(op, "does not take ", rules::Text(input),
                           ", which has no elements");
    }
  }
  return row.rule(op, attributes, inputs);
}

}  // namespace gpupool::engine
