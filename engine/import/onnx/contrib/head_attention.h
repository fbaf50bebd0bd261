// Attention over heads, with the masks of ONNX Runtime's operators. Pure
// functions of the context.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/import/onnx/operators/heads.h"

namespace gpupool::engine::onnx_import {

// Returns [batch, queries, heads * width of v].
absl::StatusOr<ValueId> AttendHeads(NodeContext& ctx, const HeadAttention& a);

// Returns the attribute "scale", or 1 / sqrt(width) when it is absent or 0.
absl::StatusOr<double> ReadScale(const NodeContext& ctx, int64_t width);
// Returns the attribute "num_heads". INVALID_ARGUMENT below 1.
absl::StatusOr<int64_t> ReadHeads(const NodeContext& ctx,
                                  absl::string_view name = "num_heads");

// The forms of a padding mask:
//   [batch]                     numbers of keys that count
//   [2 * batch]                 ends of the keys that count, then first ones
//   [batch, keys]               above 0: the key counts
//   [batch, queries, keys]      the same for each query
//   [batch, 1, longest, longest]  the same; the last query is at row keys - 1
// A key that does not count has the attribute "mask_filter_value" added to its
// score.
struct PaddingMask {
  int input = -1;
  int64_t batch = 1, queries = 1, keys = 1;
};
// Returns what is added to the scores, in the type `dtype`; invalid when there
// is no mask.
absl::StatusOr<ValueId> ReadPaddingMask(NodeContext& ctx,
                                        const PaddingMask& mask, DType dtype);

// Hides the keys that are not in `seen`, which is bool and broadcasts to the
// scores, by the bias.
absl::Status HideUnseenKeys(NodeContext& ctx, ValueId seen, HeadAttention& a);
// Sets `causal`, or hides later keys in the bias where there is one.
absl::Status HideLaterKeys(NodeContext& ctx, HeadAttention& a);
// Adds input i, if it is there, to the bias.
absl::Status AddBias(NodeContext& ctx, int i, HeadAttention& a);

}  // namespace gpupool::engine::onnx_import
