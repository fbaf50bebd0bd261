#include "engine/import/onnx/export/sequence_nodes.h"

#include <onnx/onnx_pb.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine::onnx_import {
namespace {

// Queries, keys and values.
constexpr int64_t kParts = 3;

// Returns the numbers of a query, key or value of one head.
int64_t HeadWidth(const v1::Attention& attention, const Shape& input) {
  return input[1] / kParts / attention.heads();
}

std::string Transposed(const char* part, const std::string& x,
                       const std::vector<int64_t>& permutation,
                       NodeWriter& writer) {
  onnx::NodeProto& node = writer.PartNode("Transpose", part, {x});
  SetInts(node, "perm", permutation);
  return node.output(0);
}

// Adds, once for each number of tokens, whether a token is hidden from another
// one: bool [tokens, tokens].
std::string HiddenTokens(int64_t tokens, NodeWriter& writer) {
  const std::string hidden = absl::StrCat("/hidden_", tokens);
  const std::string output = absl::StrCat(hidden, ":0");
  if (writer.WasWritten(hidden)) return output;
  const std::string rows = absl::StrCat(hidden, "/rows");
  const std::string columns = absl::StrCat(hidden, "/columns");
  writer.Count(rows, {tokens, 1});
  writer.Count(columns, {tokens});
  writer.Node("Less", hidden, {rows, columns});
  return output;
}

// Returns softmax(scale * q k^T) for q [batch, heads, tokens, n] and k [batch,
// heads, n, tokens].
std::string AddShares(const v1::Attention& attention, const Shape& input,
                      const std::vector<std::string>& operands,
                      NodeWriter& writer) {
  const auto width = static_cast<double>(HeadWidth(attention, input));
  const std::string product = writer.Part("MatMul", "product", operands);
  std::string scores = writer.Part(
      "Mul", "scores", {product, writer.Number("scale", 1 / std::sqrt(width))});
  if (attention.causal()) {
    const std::string never =
        writer.Number("never", -std::numeric_limits<double>::infinity());
    scores = writer.Part("Where", "visible",
                         {HiddenTokens(input[0], writer), never, scores});
  }
  onnx::NodeProto& shares = writer.PartNode("Softmax", "shares", {scores});
  SetInt(shares, "axis", -1);
  return shares.output(0);
}

}  // namespace

std::string AddEmbedding(const std::string& x, NodeWriter& writer) {
  return writer.Node("Gather", {writer.LayerWeight("weight"), x}).output(0);
}

std::string AddImageTokens(const std::string& x, NodeWriter& writer) {
  const std::string shape = writer.Integers("shape", {0, 0, -1});
  const std::string pixels = writer.Part("Reshape", "pixels", {x, shape});
  onnx::NodeProto& node = writer.Node("Transpose", {pixels});
  SetInts(node, "perm", {0, 2, 1});
  return node.output(0);
}

std::string AddClassToken(const Shape& input, const std::string& x,
                          NodeWriter& writer) {
  onnx::NodeProto& batch = writer.PartNode("Shape", "batch", {x});
  SetInt(batch, "start", 0);
  SetInt(batch, "end", 1);
  const std::string one = writer.Integers("one", {1, input[1]});
  onnx::NodeProto& shape =
      writer.PartNode("Concat", "shape", {batch.output(0), one});
  SetInt(shape, "axis", 0);
  const std::string tokens = writer.Part(
      "Expand", "tokens", {writer.LayerWeight("weight"), shape.output(0)});
  onnx::NodeProto& node = writer.Node("Concat", {tokens, x});
  SetInt(node, "axis", 1);
  return node.output(0);
}

std::string AddPositions(const v1::Positions& positions, const Shape& input,
                         const std::string& x, NodeWriter& writer) {
  std::string table = writer.LayerWeight("weight");
  if (positions.length() > input[0]) {
    table = writer.Part(
        "Slice", "rows",
        {table, writer.Integers("first", {0}),
         writer.Integers("end", {input[0]}), writer.Integers("axis", {0})});
  }
  return writer.Node("Add", {x, table}).output(0);
}

std::string AddAttention(const v1::Attention& attention, const Shape& input,
                         const std::string& x, NodeWriter& writer) {
  onnx::NodeProto& split = writer.PartNode("Split", "parts", {x});
  SetInt(split, "axis", 2);
  const std::string parts[] = {split.output(0),
                               absl::StrCat(split.name(), ":1"),
                               absl::StrCat(split.name(), ":2")};
  split.add_output(parts[1]);
  split.add_output(parts[2]);
  const std::string shape = writer.Integers(
      "shape", {0, 0, attention.heads(), HeadWidth(attention, input)});
  const auto heads = [&](const char* name, const std::string& part,
                         const std::vector<int64_t>& permutation) {
    const std::string by_token = absl::StrCat(name, "_by_token");
    return Transposed(name,
                      writer.Part("Reshape", by_token.c_str(), {part, shape}),
                      permutation, writer);
  };
  const std::string queries = heads("queries", parts[0], {0, 2, 1, 3});
  const std::string keys = heads("keys", parts[1], {0, 2, 3, 1});
  const std::string values = heads("values", parts[2], {0, 2, 1, 3});
  const std::string shares =
      AddShares(attention, input, {queries, keys}, writer);
  const std::string sums = writer.Part("MatMul", "sums", {shares, values});
  const std::string by_token =
      Transposed("sums_by_token", sums, {0, 2, 1, 3}, writer);
  const std::string joined = writer.Integers("joined", {0, 0, -1});
  return writer.Node("Reshape", {by_token, joined}).output(0);
}

std::string AddPickToken(const v1::PickToken& pick, const std::string& x,
                         NodeWriter& writer) {
  onnx::NodeProto& node =
      writer.Node("Gather", {x, writer.Integer("index", pick.index())});
  SetInt(node, "axis", 1);
  return node.output(0);
}

std::string AddMeanTokens(const std::string& x, NodeWriter& writer) {
  onnx::NodeProto& node = writer.Node("ReduceMean", {x});
  SetInts(node, "axes", {1});
  SetInt(node, "keepdims", 0);
  return node.output(0);
}

}  // namespace gpupool::engine::onnx_import
