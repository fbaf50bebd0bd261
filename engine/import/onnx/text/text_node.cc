#include "engine/import/onnx/text/text_node.h"

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/import/onnx/file/external_files.h"
#include "engine/import/onnx/file/names.h"
#include "engine/import/onnx/text/text_constants.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::AttributeProto;
using onnx::NodeProto;
using Program = v1::TextProgram;

const AttributeProto* FindTextAttribute(const NodeProto& node,
                                        absl::string_view name) {
  for (const AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

int64_t IntOf(const NodeProto& node, absl::string_view name,
              int64_t otherwise) {
  const AttributeProto* found = FindTextAttribute(node, name);
  return found == nullptr ? otherwise : found->i();
}

std::string StringOf(const NodeProto& node, absl::string_view name,
                     absl::string_view otherwise) {
  const AttributeProto* found = FindTextAttribute(node, name);
  return found == nullptr ? std::string(otherwise) : found->s();
}

v1::TextTensor ListOf(v1::DataType type, int size) {
  v1::TextTensor tensor;
  tensor.set_data_type(type);
  tensor.add_shape(size);
  return tensor;
}

// Sets the node's inputs and, from the attribute of older operator sets, the
// axes.
void AddAxes(const NodeProto& node, TextNode& text) {
  const AttributeProto* axes = FindTextAttribute(node, "axes");
  if (axes == nullptr) return;
  v1::TextTensor constant = ListOf(v1::INT64, axes->ints_size());
  constant.mutable_integers()->Add(axes->ints().begin(), axes->ints().end());
  text.added.push_back(std::move(constant));
}

// Reads the lists "PREFIX_strings", "PREFIX_int64s" and "PREFIX_floats", or the
// tensor "PREFIX_tensor".
absl::StatusOr<v1::TextTensor> ReadTable(const NodeProto& node,
                                         absl::string_view prefix,
                                         const ExternalFiles& external) {
  const auto find = [&](absl::string_view ending) {
    return FindTextAttribute(node, absl::StrCat(prefix, "_", ending));
  };
  if (const AttributeProto* list = find("strings")) {
    v1::TextTensor table = ListOf(v1::STRING, list->strings_size());
    table.mutable_texts()->Add(list->strings().begin(), list->strings().end());
    return table;
  }
  if (const AttributeProto* list = find("int64s")) {
    v1::TextTensor table = ListOf(v1::INT64, list->ints_size());
    table.mutable_integers()->Add(list->ints().begin(), list->ints().end());
    return table;
  }
  if (const AttributeProto* list = find("floats")) {
    v1::TextTensor table = ListOf(v1::FLOAT32, list->floats_size());
    table.mutable_floats()->Add(list->floats().begin(), list->floats().end());
    return table;
  }
  if (const AttributeProto* tensor = find("tensor")) {
    return TextConstant(tensor->t(), external);
  }
  return absl::InvalidArgumentError(absl::StrCat("has no ", prefix));
}

// Returns the value of keys that the table does not have.
absl::StatusOr<v1::TextTensor> ReadDefault(const NodeProto& node,
                                           v1::DataType type,
                                           const ExternalFiles& external) {
  if (const AttributeProto* given = FindTextAttribute(node, "default_tensor")) {
    return TextConstant(given->t(), external);
  }
  v1::TextTensor value = ListOf(type, 1);
  if (type == v1::STRING) {
    value.add_texts(StringOf(node, "default_string", "_Unused"));
  } else if (type == v1::FLOAT32 || type == v1::FLOAT64) {
    const AttributeProto* given = FindTextAttribute(node, "default_float");
    value.add_floats(given == nullptr ? -0.0 : double{given->f()});
  } else {
    value.add_integers(IntOf(node, "default_int64", -1));
  }
  return value;
}

absl::Status ReadLabelEncoder(const NodeProto& node,
                              const ExternalFiles& external,
                              Program::Node& text) {
  if (FindTextAttribute(node, "classes_strings") != nullptr) {
    return absl::UnimplementedError(
        "has classes_strings of the first version; export the model with "
        "operator set 2 of ai.onnx.ml or later");
  }
  ASSIGN_OR_RETURN(*text.add_tables(), ReadTable(node, "keys", external));
  ASSIGN_OR_RETURN(*text.add_tables(), ReadTable(node, "values", external));
  ASSIGN_OR_RETURN(*text.add_tables(),
                   ReadDefault(node, text.tables(1).data_type(), external));
  return absl::OkStatus();
}

absl::Status ReadNormalizer(const NodeProto& node, Program::Node& text) {
  Program::Normalizer& normalizer = *text.mutable_normalizer();
  const std::string change = StringOf(node, "case_change_action", "NONE");
  if (change == "LOWER") {
    normalizer.set_change(Program::Normalizer::LOWER);
  } else if (change == "UPPER") {
    normalizer.set_change(Program::Normalizer::UPPER);
  } else if (change != "NONE") {
    return absl::InvalidArgumentError(
        absl::StrCat("has case_change_action '", change,
                     "'; it may be LOWER, UPPER or NONE"));
  }
  normalizer.set_case_sensitive(IntOf(node, "is_case_sensitive", 0) != 0);
  if (const auto* words = FindTextAttribute(node, "stopwords")) {
    normalizer.mutable_stopwords()->Add(words->strings().begin(),
                                        words->strings().end());
  }
  return absl::OkStatus();
}

absl::Status ReadTfidf(const NodeProto& node, const ExternalFiles& external,
                       Program::Node& text) {
  Program::Tfidf& tfidf = *text.mutable_tfidf();
  const std::string mode = StringOf(node, "mode", "");
  if (mode == "IDF") {
    tfidf.set_mode(Program::Tfidf::IDF);
  } else if (mode == "TFIDF") {
    tfidf.set_mode(Program::Tfidf::TFIDF);
  } else if (mode != "TF") {
    return absl::InvalidArgumentError(
        absl::StrCat("has mode '", mode, "'; it may be TF, IDF or TFIDF"));
  }
  tfidf.set_min_length(IntOf(node, "min_gram_length", 1));
  tfidf.set_max_length(IntOf(node, "max_gram_length", 1));
  tfidf.set_max_skips(IntOf(node, "max_skip_count", 0));
  if (const auto* counts = FindTextAttribute(node, "ngram_counts")) {
    tfidf.mutable_counts()->Add(counts->ints().begin(), counts->ints().end());
  }
  if (const auto* indexes = FindTextAttribute(node, "ngram_indexes")) {
    tfidf.mutable_indexes()->Add(indexes->ints().begin(),
                                 indexes->ints().end());
  }
  if (const auto* weights = FindTextAttribute(node, "weights")) {
    tfidf.mutable_weights()->Add(weights->floats().begin(),
                                 weights->floats().end());
  }
  ASSIGN_OR_RETURN(*tfidf.mutable_pool(), ReadTable(node, "pool", external));
  return absl::OkStatus();
}

struct OperatorRow {
  absl::string_view domain;
  absl::string_view name;
  Program::Op op;
};
constexpr OperatorRow kOperators[] = {
    {"", "Identity", Program::IDENTITY},
    {"", "Cast", Program::CAST},
    {"", "Concat", Program::CONCAT},
    {"", "Gather", Program::GATHER},
    {"", "Equal", Program::EQUAL},
    {"", "Reshape", Program::RESHAPE},
    {"", "Squeeze", Program::SQUEEZE},
    {"", "Unsqueeze", Program::UNSQUEEZE},
    {"", "StringConcat", Program::STRING_CONCAT},
    {"", "StringNormalizer", Program::STRING_NORMALIZER},
    {"", "TfIdfVectorizer", Program::TFIDF_VECTORIZER},
    {"ai.onnx.ml", "LabelEncoder", Program::LABEL_ENCODER},
};

absl::StatusOr<Program::Op> OperatorOf(const NodeProto& node) {
  for (const OperatorRow& row : kOperators) {
    if (row.domain == NormalDomain(node.domain()) &&
        row.name == node.op_type()) {
      return row.op;
    }
  }
  return absl::UnimplementedError(
      "a model with texts cannot have this operator; keep the numbers in a "
      "model of their own, which clients ask with the numbers of this one");
}

absl::Status ReadAttributes(const NodeProto& node,
                            const ExternalFiles& external, TextNode& text) {
  switch (text.node.op()) {
    case Program::CAST: {
      ASSIGN_OR_RETURN(const v1::DataType type,
                       TextDataType(static_cast<int>(IntOf(node, "to", 0))));
      text.node.set_output_type(type);
      return absl::OkStatus();
    }
    case Program::CONCAT:
    case Program::GATHER:
      text.node.set_axis(IntOf(node, "axis", 0));
      return absl::OkStatus();
    case Program::RESHAPE:
      text.node.set_axis(IntOf(node, "allowzero", 0));
      return absl::OkStatus();
    case Program::SQUEEZE:
    case Program::UNSQUEEZE:
      AddAxes(node, text);
      return absl::OkStatus();
    case Program::STRING_NORMALIZER:
      return ReadNormalizer(node, text.node);
    case Program::LABEL_ENCODER:
      return ReadLabelEncoder(node, external, text.node);
    case Program::TFIDF_VECTORIZER:
      return ReadTfidf(node, external, text.node);
    default:
      return absl::OkStatus();
  }
}

absl::StatusOr<TextNode> ReadNode(const NodeProto& node,
                                  const ExternalFiles& external) {
  TextNode text;
  text.node.set_name(NodeTitle(node));
  ASSIGN_OR_RETURN(const Program::Op op, OperatorOf(node));
  text.node.set_op(op);
  if (node.output_size() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", node.output_size(), " outputs instead of 1"));
  }
  RETURN_IF_ERROR(ReadAttributes(node, external, text));
  text.inputs.assign(node.input().begin(), node.input().end());
  // An optional input at the end may be written as an empty name.
  while (!text.inputs.empty() && text.inputs.back().empty()) {
    text.inputs.pop_back();
  }
  return text;
}

absl::StatusOr<v1::TextTensor> ReadConstant(const NodeProto& node,
                                            const ExternalFiles& external) {
  if (const auto* value = FindTextAttribute(node, "value")) {
    return TextConstant(value->t(), external);
  }
  v1::TextTensor constant;
  if (const auto* text = FindTextAttribute(node, "value_string")) {
    constant.set_data_type(v1::STRING);
    constant.add_texts(text->s());
  } else if (const auto* number = FindTextAttribute(node, "value_int")) {
    constant.set_data_type(v1::INT64);
    constant.add_integers(number->i());
  } else if (const auto* real = FindTextAttribute(node, "value_float")) {
    constant.set_data_type(v1::FLOAT32);
    constant.add_floats(real->f());
  } else if (const auto* texts = FindTextAttribute(node, "value_strings")) {
    constant = ListOf(v1::STRING, texts->strings_size());
    constant.mutable_texts()->Add(texts->strings().begin(),
                                  texts->strings().end());
  } else if (const auto* numbers = FindTextAttribute(node, "value_ints")) {
    constant = ListOf(v1::INT64, numbers->ints_size());
    constant.mutable_integers()->Add(numbers->ints().begin(),
                                     numbers->ints().end());
  } else if (const auto* reals = FindTextAttribute(node, "value_floats")) {
    constant = ListOf(v1::FLOAT32, reals->floats_size());
    constant.mutable_floats()->Add(reals->floats().begin(),
                                   reals->floats().end());
  } else {
    return absl::UnimplementedError("has no value that is a dense tensor");
  }
  return constant;
}

}  // namespace

bool IsTextOperator(const NodeProto& node) {
  return OperatorOf(node).ok() ||
         (node.op_type() == "Constant" && NormalDomain(node.domain()).empty());
}

absl::StatusOr<TextNode> ReadTextNode(const NodeProto& node,
                                      const ExternalFiles& external) {
  absl::StatusOr<TextNode> text = ReadNode(node, external);
  RETURN_IF_ERROR(AtPlace(NodeTitle(node), text.status()));
  return text;
}

absl::StatusOr<v1::TextTensor> ReadTextConstantNode(
    const NodeProto& node, const ExternalFiles& external) {
  absl::StatusOr<v1::TextTensor> constant = ReadConstant(node, external);
  RETURN_IF_ERROR(AtPlace(NodeTitle(node), constant.status()));
  return constant;
}

}  // namespace gpupool::engine::onnx_import
