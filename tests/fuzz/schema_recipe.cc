// Nodes from ONNX's own schemas: as many inputs as the operator takes, of types
// that it allows, and attributes of the right kind.
#include <onnx/defs/schema.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/fuzz/recipes.h"

namespace gpupool::engine::fuzz {
namespace {

using onnx::AttributeProto;
using onnx::OpSchema;
using onnx::TensorProto;

struct TypeName {
  int type;
  const char* name;
};

constexpr TypeName kTypeNames[] = {{TensorProto::FLOAT, "tensor(float)"},
                                   {TensorProto::FLOAT16, "tensor(float16)"},
                                   {TensorProto::BFLOAT16, "tensor(bfloat16)"},
                                   {TensorProto::DOUBLE, "tensor(double)"},
                                   {TensorProto::INT64, "tensor(int64)"},
                                   {TensorProto::INT32, "tensor(int32)"},
                                   {TensorProto::INT16, "tensor(int16)"},
                                   {TensorProto::INT8, "tensor(int8)"},
                                   {TensorProto::UINT8, "tensor(uint8)"},
                                   {TensorProto::UINT16, "tensor(uint16)"},
                                   {TensorProto::UINT32, "tensor(uint32)"},
                                   {TensorProto::BOOL, "tensor(bool)"}};

std::vector<int> TypesOf(const OpSchema::FormalParameter& parameter) {
  std::vector<int> types;
  for (const std::string* allowed : parameter.GetTypes()) {
    for (const TypeName& row : kTypeNames) {
      if (*allowed == row.name) types.push_back(row.type);
    }
  }
  // A set of pointers has no order of its own.
  std::sort(types.begin(), types.end());
  return types;
}

const std::vector<std::string>& Words() {
  static const auto& words = *new std::vector<std::string>{
      "constant", "reflect",    "edge",       "wrap",       "linear",
      "nearest",  "cubic",      "none",       "add",        "mul",
      "max",      "min",        "mean",       "sum",        "forward",
      "reverse",  "SAME_UPPER", "SAME_LOWER", "VALID",      "NOTSET",
      "LEFT",     "RIGHT",      "DCR",        "CRD",        "zeros",
      "border",   "tanh",       "avg",        "half_pixel", "align_corners"};
  return words;
}

std::vector<int64_t> RandomIntegers(Dice& dice, int rank,
                                    const std::string& name) {
  std::vector<int64_t> numbers;
  if (name == "perm") {
    for (int i = 0; i < rank; ++i) numbers.push_back(i);
    for (size_t i = numbers.size(); i > 1; --i) {
      std::swap(
          numbers[i - 1],
          numbers[static_cast<size_t>(dice.Below(static_cast<int64_t>(i)))]);
    }
    return numbers;
  }
  if (name == "axes") {
    for (int i = 0; i < rank; ++i) {
      if (dice.Chance(50)) numbers.push_back(dice.Chance(50) ? i : i - rank);
    }
    return numbers;
  }
  const int64_t count = dice.OneOf<int64_t>({1, 2, rank, 2 * rank, rank - 2});
  for (int64_t i = 0; i < count; ++i) numbers.push_back(dice.Between(0, 3));
  return numbers;
}

void AddSchemaAttribute(GraphWriter& writer,
                        const OpSchema::Attribute& attribute,
                        const Pooled& first, onnx::NodeProto* node) {
  Dice& dice = writer.dice();
  const std::string& name = attribute.name;
  const int rank = first.rank();
  switch (attribute.type) {
    case AttributeProto::INT:
      if (name == "to" || name == "dtype") {
        return Set(node, name, RandomType(dice));
      }
      if (name == "axis" || name == "batch_axis" || name == "time_axis") {
        return Set(node, name, dice.Between(-rank, std::max(rank - 1, 0)));
      }
      return Set(node, name, dice.OneOf<int64_t>({0, 1, 1, 2, 3, -1}));
    case AttributeProto::FLOAT:
      return SetFloat(node, name,
                      dice.OneOf<double>({0.5, 1, 2, 0.1, 0.01, 3, -1, 0}));
    case AttributeProto::STRING:
      return SetText(node, name, dice.OneOf(Words()));
    case AttributeProto::INTS:
      return SetInts(node, name, RandomIntegers(dice, rank, name));
    case AttributeProto::TENSOR: {
      auto* tensor = node->add_attribute();
      tensor->set_name(name);
      tensor->set_type(AttributeProto::TENSOR);
      *tensor->mutable_t() =
          RandomTensor(dice, "", RandomType(dice), RandomDims(dice));
      return;
    }
    default:
      return;
  }
}

// Returns a second or later operand: mostly one that broadcasts to the first.
Pooled LaterInput(GraphWriter& writer, const std::vector<int>& types,
                  const Pooled& first) {
  Dice& dice = writer.dice();
  if (dice.Chance(20)) return writer.Pick(types);
  const int type = dice.OneOf(types);
  if (dice.Chance(50)) return writer.Fresh(type, first.dims);
  return writer.Fresh(type, RandomBroadcastable(dice, first.dims));
}

// Returns how many inputs to write.
int InputCount(Dice& dice, const OpSchema& schema) {
  const int least = schema.min_input();
  const int most = std::min(schema.max_input(), least + 2);
  return static_cast<int>(dice.Between(least, most));
}

}  // namespace

void WriteFromSchema(GraphWriter& writer, const std::string& op) {
  const OpSchema* schema = onnx::OpSchemaRegistry::Schema(op, "");
  if (schema == nullptr) return;
  Dice& dice = writer.dice();
  std::map<std::string, int> bound;
  std::vector<std::string> inputs;
  Pooled first;
  const int count = InputCount(dice, *schema);
  for (int i = 0; i < count; ++i) {
    const size_t last = schema->inputs().size() - 1;
    const auto& parameter =
        schema->inputs()[std::min(static_cast<size_t>(i), last)];
    std::vector<int> types = TypesOf(parameter);
    const auto found = bound.find(parameter.GetTypeStr());
    if (found != bound.end()) types = {found->second};
    if (types.empty()) return;
    const Pooled value =
        i == 0 ? writer.Pick(types) : LaterInput(writer, types, first);
    if (i == 0) first = value;
    bound[parameter.GetTypeStr()] = value.type;
    inputs.push_back(value.name);
  }
  const int outputs = static_cast<int>(
      dice.Between(std::max(schema->min_output(), 1),
                   std::min(schema->max_output(), schema->min_output() + 2)));
  onnx::NodeProto* node = writer.Node(op, inputs, std::max(outputs, 1));
  for (const auto& [name, attribute] : schema->attributes()) {
    if (attribute.required || dice.Chance(35)) {
      AddSchemaAttribute(writer, attribute, first, node);
    }
  }
}

}  // namespace gpupool::engine::fuzz
