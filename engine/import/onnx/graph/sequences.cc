#include "engine/import/onnx/graph/sequences.h"

#include <onnx/onnx_pb.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

using Entries = std::vector<Entry>;

// Defines the node's first output, which may be any kind of entry.
void DefineFirst(NodeContext& ctx, Entry entry) {
  if (ctx.wants_output(0)) {
    ctx.importer().scope().Define(ctx.node().output(0), std::move(entry));
  }
}

const Entry* Given(NodeContext& ctx, int i) {
  return i < ctx.input_count() ? ctx.importer().Find(ctx.node().input(i))
                               : nullptr;
}

// Charges the budget for a list of that length before it is made.
absl::Status HoldList(NodeContext& ctx, size_t length) {
  const absl::Status held =
      ctx.importer().values().budget().Hold(length * sizeof(Entry));
  return held.ok() ? held : ctx.Refuse(held.message());
}

// Returns the elements of a sequence. The pointer keeps them alive.
absl::StatusOr<std::shared_ptr<const Entries>> SequenceInput(NodeContext& ctx,
                                                             int i) {
  const Entry* entry = Given(ctx, i);
  if (entry == nullptr || !entry->is_sequence()) {
    return ctx.Refuse("input ", i, " must be a sequence");
  }
  return entry->sequence;
}

absl::StatusOr<Entry> TensorInput(NodeContext& ctx, int i) {
  ASSIGN_OR_RETURN(const ValueId id, ctx.Input(i));
  return Entry::Tensor(id);
}

// Returns a known position from 0 to size - 1, or to size if `end` is true.
// Negative positions count from the end.
absl::StatusOr<size_t> Position(NodeContext& ctx, int input, size_t size,
                                bool end) {
  ASSIGN_OR_RETURN(int64_t position, KnownInt(ctx, input, "the position"));
  const auto count = static_cast<int64_t>(size);
  if (position < 0) position += count;
  if (position < 0 || position >= count + (end ? 1 : 0)) {
    return ctx.Refuse("position ", position, " of a sequence of ", count);
  }
  return static_cast<size_t>(position);
}

absl::Status Construct(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  RETURN_IF_ERROR(HoldList(ctx, static_cast<size_t>(ctx.input_count())));
  Entries entries;
  for (int i = 0; i < ctx.input_count(); ++i) {
    ASSIGN_OR_RETURN(entries.emplace_back(), TensorInput(ctx, i));
  }
  DefineFirst(ctx, Entry::Sequence(std::move(entries)));
  return absl::OkStatus();
}

absl::Status Empty(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  DefineFirst(ctx, Entry::Sequence({}));
  return absl::OkStatus();
}

absl::Status At(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ASSIGN_OR_RETURN(const auto entries, SequenceInput(ctx, 0));
  ASSIGN_OR_RETURN(const size_t at, Position(ctx, 1, entries->size(), false));
  DefineFirst(ctx, (*entries)[at]);
  return absl::OkStatus();
}

absl::Status Insert(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ASSIGN_OR_RETURN(const auto given, SequenceInput(ctx, 0));
  if (given->size() >= kMaxSequenceLength) {
    return ctx.Refuse("a sequence has more than ", kMaxSequenceLength,
                      " elements");
  }
  RETURN_IF_ERROR(HoldList(ctx, given->size() + 1));
  Entries entries = *given;
  size_t at = entries.size();
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(at, Position(ctx, 2, entries.size(), true));
  }
  ASSIGN_OR_RETURN(Entry entry, TensorInput(ctx, 1));
  entries.insert(entries.begin() + static_cast<int64_t>(at), std::move(entry));
  DefineFirst(ctx, Entry::Sequence(std::move(entries)));
  return absl::OkStatus();
}

absl::Status Erase(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ASSIGN_OR_RETURN(const auto given, SequenceInput(ctx, 0));
  if (given->empty()) return ctx.Refuse("the sequence is empty");
  RETURN_IF_ERROR(HoldList(ctx, given->size()));
  Entries entries = *given;
  size_t at = entries.size() - 1;
  if (ctx.has_input(1)) {
    ASSIGN_OR_RETURN(at, Position(ctx, 1, entries.size(), false));
  }
  entries.erase(entries.begin() + static_cast<int64_t>(at));
  DefineFirst(ctx, Entry::Sequence(std::move(entries)));
  return absl::OkStatus();
}

absl::Status Length(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ASSIGN_OR_RETURN(const auto entries, SequenceInput(ctx, 0));
  ctx.Set(0, ctx.Scalar(DType::kInt64, static_cast<double>(entries->size())));
  return absl::OkStatus();
}

absl::Status ConcatFromSequence(GraphImporter& importer,
                                const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ASSIGN_OR_RETURN(const auto entries, SequenceInput(ctx, 0));
  ASSIGN_OR_RETURN(const int64_t new_axis, ctx.Int("new_axis", 0));
  ASSIGN_OR_RETURN(const int64_t given_axis, ctx.Int("axis", 0));
  if (entries->empty()) return ctx.Refuse("the sequence is empty");
  // Copies of a list are free, but this makes a list of values from it.
  RETURN_IF_ERROR(HoldList(ctx, entries->size()));
  ValueIds parts;
  for (const Entry& entry : *entries) {
    ASSIGN_OR_RETURN(const ValueId part,
                     importer.Materialize(entry, MemoryClass::kWeight));
    parts.push_back(part);
  }
  const int rank = ctx.rank(parts[0]) + (new_axis != 0 ? 1 : 0);
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(given_axis, rank));
  if (new_axis != 0) {
    for (ValueId& part : parts) {
      std::vector<int64_t> dims = Dims(ctx.shape(part));
      if (static_cast<int>(dims.size()) != rank - 1) {
        return ctx.Refuse("tensors of different ranks cannot be stacked");
      }
      dims.insert(dims.begin() + axis, 1);
      ASSIGN_OR_RETURN(part, ReshapeMaybeEmpty(ctx, part, dims));
    }
  }
  return Finish(ctx, Concat(ctx, parts, axis));
}

// Returns the sizes of the pieces of an axis of `size` cells.
absl::StatusOr<std::vector<int64_t>> Pieces(NodeContext& ctx, int64_t size) {
  if (!ctx.has_input(1)) {
    return std::vector<int64_t>(static_cast<size_t>(size), 1);
  }
  ASSIGN_OR_RETURN(const HostTensor split, ctx.Known(1, "the split"));
  std::vector<int64_t> sizes = split.Integers();
  // One number is the size of every piece. The last piece may be smaller.
  if (split.shape.rank() == 0) {
    const int64_t piece = sizes[0];
    if (piece < 1) return ctx.Refuse("pieces of ", piece, " cells");
    sizes.assign(static_cast<size_t>(size / piece), piece);
    if (size % piece != 0) sizes.push_back(size % piece);
  }
  int64_t left = size;
  for (int64_t piece : sizes) {
    if (piece < 0 || piece > left) {
      return ctx.Refuse("pieces do not add up to ", size);
    }
    left -= piece;
  }
  if (left != 0) return ctx.Refuse("pieces do not add up to ", size);
  return sizes;
}

absl::Status SplitToSequence(GraphImporter& importer,
                             const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t given_axis, ctx.Int("axis", 0));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(given_axis, ctx.rank(x)));
  ASSIGN_OR_RETURN(const int64_t keep_dims, ctx.Int("keepdims", 1));
  const int64_t size = ctx.shape(x)[axis];
  if (size > static_cast<int64_t>(kMaxSequenceLength)) {
    return ctx.Refuse("a sequence has more than ", kMaxSequenceLength,
                      " elements");
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, Pieces(ctx, size));
  const bool drop_axis = keep_dims == 0 && !ctx.has_input(1);
  RETURN_IF_ERROR(HoldList(ctx, sizes.size()));
  Entries entries;
  int64_t start = 0;
  for (int64_t piece : sizes) {
    absl::StatusOr<ValueId> part =
        drop_axis
            ? TakeRow(ctx, x, axis, start)
            : SliceAxis(ctx, x, {.axis = axis, .start = start, .size = piece});
    if (!part.ok()) return part.status();
    entries.push_back(Entry::Tensor(*part));
    start += piece;
  }
  DefineFirst(ctx, Entry::Sequence(std::move(entries)));
  return absl::OkStatus();
}

// Passes the input on. An optional is the same entry as its content, and an
// empty optional is an empty entry.
absl::Status Pass(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  const Entry* entry = Given(ctx, 0);
  DefineFirst(ctx, entry == nullptr ? Entry() : *entry);
  return absl::OkStatus();
}

absl::Status GetElement(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  if (!ctx.has_input(0)) return ctx.Refuse("the optional is empty");
  return Pass(importer, node);
}

absl::Status HasElement(GraphImporter& importer, const onnx::NodeProto& node) {
  NodeContext ctx(node, 0, &importer);
  ctx.Set(0, ctx.Scalar(DType::kBool, ctx.has_input(0) ? 1 : 0));
  return absl::OkStatus();
}

struct Row {
  absl::string_view name;
  NodeImport import;
};
constexpr Row kRows[] = {
    {"SequenceConstruct", Construct},
    {"SequenceEmpty", Empty},
    {"SequenceAt", At},
    {"SequenceInsert", Insert},
    {"SequenceErase", Erase},
    {"SequenceLength", Length},
    {"ConcatFromSequence", ConcatFromSequence},
    {"SplitToSequence", SplitToSequence},
    {"Optional", Pass},
    {"OptionalGetElement", GetElement},
    {"OptionalHasElement", HasElement},
};

NodeImport Find(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.import;
  }
  return nullptr;
}

}  // namespace

bool IsSequenceOperator(absl::string_view name) {
  return Find(name) != nullptr;
}

NodeImport FindSequenceOperator(const GraphImporter& importer,
                                const onnx::NodeProto& node) {
  // An Identity of a tensor is an ordinary operator.
  if (node.op_type() != "Identity") return Find(node.op_type());
  if (node.input_size() != 1) return nullptr;
  const Entry* entry = importer.Find(node.input(0));
  return entry == nullptr || entry->is_tensor() ? nullptr : Pass;
}

}  // namespace gpupool::engine::onnx_import
