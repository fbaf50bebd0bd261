#include "server/serving/text/text_runner.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "server/serving/text/text_cast.h"
#include "server/serving/text/text_shapes.h"

namespace gpupool::server {
namespace {

using Node = v1::TextProgram::Node;

// Numbers of inputs that an operator takes.
struct Arity {
  v1::TextProgram::Op op;
  int least;
  int most;
};
constexpr Arity kArities[] = {
    {v1::TextProgram::IDENTITY, 1, 1},
    {v1::TextProgram::CAST, 1, 1},
    {v1::TextProgram::CONCAT, 1, TextRunner::kMostInputs},
    {v1::TextProgram::GATHER, 2, 2},
    {v1::TextProgram::EQUAL, 2, 2},
    {v1::TextProgram::RESHAPE, 2, 2},
    {v1::TextProgram::SQUEEZE, 1, 2},
    {v1::TextProgram::UNSQUEEZE, 2, 2},
    {v1::TextProgram::STRING_CONCAT, 2, 2},
    {v1::TextProgram::STRING_NORMALIZER, 1, 1},
    {v1::TextProgram::LABEL_ENCODER, 1, 1},
    {v1::TextProgram::TFIDF_VECTORIZER, 1, 1},
};

absl::Status CheckPair(const TextTensor& left, const TextTensor& right) {
  if (left.type == right.type) return absl::OkStatus();
  return engine::Refuse("takes two inputs of one type, and got ",
                        v1::DataType_Name(left.type), " and ",
                        v1::DataType_Name(right.type));
}

absl::StatusOr<TextTensor> RunEqual(TextInputs inputs, TextMemory& memory) {
  const TextTensor& left = *inputs[0];
  const TextTensor& right = *inputs[1];
  RETURN_IF_ERROR(CheckPair(left, right));
  ASSIGN_OR_RETURN(BroadcastPairs pairs, Broadcast(left, right, memory));
  TextTensor result;
  result.type = v1::BOOL;
  result.shape = std::move(pairs.shape);
  result.integers.reserve(pairs.left.size());
  for (size_t i = 0; i < pairs.left.size(); ++i) {
    const uint32_t a = pairs.left[i];
    const uint32_t b = pairs.right[i];
    const bool equal = left.kind() == TextKind::kText
                           ? left.texts[a] == right.texts[b]
                       : left.kind() == TextKind::kFloat
                           ? left.floats[a] == right.floats[b]
                           : left.integers[a] == right.integers[b];
    result.integers.push_back(equal ? 1 : 0);
  }
  return result;
}

absl::StatusOr<TextTensor> RunStringConcat(TextInputs inputs,
                                           TextMemory& memory) {
  const TextTensor& left = *inputs[0];
  const TextTensor& right = *inputs[1];
  RETURN_IF_ERROR(CheckPair(left, right));
  if (left.kind() != TextKind::kText) return engine::Refuse("takes texts");
  ASSIGN_OR_RETURN(BroadcastPairs pairs, Broadcast(left, right, memory));
  TextTensor result;
  result.type = v1::STRING;
  result.shape = std::move(pairs.shape);
  for (size_t i = 0; i < pairs.left.size(); ++i) {
    const absl::string_view a = left.texts[pairs.left[i]];
    const absl::string_view b = right.texts[pairs.right[i]];
    RETURN_IF_ERROR(memory.Take(sizeof(std::string) + a.size() + b.size()));
    result.texts.push_back(memory.Keep(absl::StrCat(a, b)));
  }
  return result;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TextRunner>> TextRunner::Create(
    const v1::TextProgram& program, int inputs) {
  // Parts of it view the program, so it must not move.
  std::shared_ptr<TextRunner> runner(new TextRunner(program));
  RETURN_IF_ERROR(runner->Prepare(inputs));
  return runner;
}

absl::Status TextRunner::Prepare(int inputs) {
  if (program_.nodes_size() > kMostNodes) {
    return engine::Refuse("the model of texts has ", program_.nodes_size(),
                          " nodes; the limit is ", kMostNodes);
  }
  for (const v1::TextTensor& constant : program_.constants()) {
    ASSIGN_OR_RETURN(constants_.emplace_back(), ViewConstant(constant));
  }
  auto values = static_cast<uint32_t>(inputs + program_.constants_size());
  for (const Node& node : program_.nodes()) {
    RETURN_IF_ERROR(engine::AtPlace(node.name(), CheckNode(node, values)));
    absl::StatusOr<Prepared> prepared = PrepareNode(node);
    RETURN_IF_ERROR(engine::AtPlace(node.name(), prepared.status()));
    prepared_.push_back(*std::move(prepared));
    ++values;
  }
  for (const uint32_t output : program_.outputs()) {
    if (output >= values) {
      return engine::Refuse("the model of texts has the output ", output,
                            " of ", values, " values");
    }
  }
  return absl::OkStatus();
}

absl::Status TextRunner::CheckNode(const Node& node, uint32_t values) const {
  for (const uint32_t input : node.inputs()) {
    if (input < values) continue;
    return engine::Refuse("reads value ", input, " of ", values);
  }
  for (const Arity& arity : kArities) {
    if (arity.op != node.op()) continue;
    if (node.inputs_size() >= arity.least && node.inputs_size() <= arity.most) {
      return absl::OkStatus();
    }
    return engine::Refuse("has ", node.inputs_size(), " inputs; it takes ",
                          arity.least, " to ", arity.most);
  }
  return engine::Refuse("has the unknown operator ",
                        static_cast<int>(node.op()));
}

absl::StatusOr<TextRunner::Prepared> TextRunner::PrepareNode(const Node& node) {
  switch (node.op()) {
    case v1::TextProgram::CAST:
      RETURN_IF_ERROR(TextKindOf(node.output_type()).status());
      return Prepared();
    case v1::TextProgram::LABEL_ENCODER: {
      ASSIGN_OR_RETURN(TextLabels labels, TextLabels::Create(node));
      return Prepared(std::move(labels));
    }
    case v1::TextProgram::STRING_NORMALIZER:
      return Prepared(std::in_place_type<TextNormalizer>, node.normalizer());
    case v1::TextProgram::TFIDF_VECTORIZER: {
      ASSIGN_OR_RETURN(TextTfidf tfidf, TextTfidf::Create(node.tfidf()));
      return Prepared(std::move(tfidf));
    }
    default:
      return Prepared();
  }
}

absl::StatusOr<TextTensor> TextRunner::RunNode(
    int index, absl::Span<const TextTensor* const> inputs,
    TextMemory& memory) const {
  const Node& node = program_.nodes(index);
  const Prepared& prepared = prepared_[static_cast<size_t>(index)];
  switch (node.op()) {
    case v1::TextProgram::CAST:
      return CastText(*inputs[0], node.output_type(), memory);
    case v1::TextProgram::CONCAT:
      return ConcatTexts(inputs, node.axis(), memory);
    case v1::TextProgram::GATHER:
      return GatherTexts(inputs, node.axis(), memory);
    case v1::TextProgram::EQUAL:
      return RunEqual(inputs, memory);
    case v1::TextProgram::RESHAPE:
      return ReshapeTexts(inputs, node.axis() != 0, memory);
    case v1::TextProgram::SQUEEZE:
      return SqueezeTexts(inputs, memory);
    case v1::TextProgram::UNSQUEEZE:
      return UnsqueezeTexts(inputs, memory);
    case v1::TextProgram::STRING_CONCAT:
      return RunStringConcat(inputs, memory);
    case v1::TextProgram::STRING_NORMALIZER:
      return std::get<TextNormalizer>(prepared).Run(*inputs[0], memory);
    case v1::TextProgram::LABEL_ENCODER:
      return std::get<TextLabels>(prepared).Run(*inputs[0], memory);
    case v1::TextProgram::TFIDF_VECTORIZER:
      return std::get<TextTfidf>(prepared).Run(*inputs[0], memory);
    default:
      RETURN_IF_ERROR(memory.TakeElements(inputs[0]->size()));
      return *inputs[0];
  }
}

absl::StatusOr<std::vector<TextTensor>> TextRunner::Run(
    std::vector<TextTensor> inputs, TextMemory& memory) const {
  std::vector<TextTensor> results;
  // Pointers refer to the results, so the vector must not grow.
  results.reserve(static_cast<size_t>(program_.nodes_size()));
  std::vector<const TextTensor*> values;
  for (const TextTensor& input : inputs) values.push_back(&input);
  for (const TextTensor& constant : constants_) values.push_back(&constant);
  for (int i = 0; i < program_.nodes_size(); ++i) {
    const Node& node = program_.nodes(i);
    std::vector<const TextTensor*> operands;
    for (const uint32_t input : node.inputs()) {
      operands.push_back(values[input]);
    }
    absl::StatusOr<TextTensor> result = RunNode(i, operands, memory);
    RETURN_IF_ERROR(engine::AtPlace(node.name(), result.status()));
    results.push_back(*std::move(result));
    values.push_back(&results.back());
  }
  std::vector<TextTensor> outputs;
  for (const uint32_t output : program_.outputs()) {
    RETURN_IF_ERROR(memory.TakeElements(values[output]->size()));
    outputs.push_back(*values[output]);
  }
  return outputs;
}

}  // namespace gpupool::server
