// Parts that the operators of attention share: heads, rotary position
// embedding, hidden scores. Pure functions of the context.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// Converts [batch, tokens, heads * width] to [batch, heads, tokens, width].
// INVALID_ARGUMENT unless `heads` divides the last dimension.
absl::StatusOr<ValueId> SplitHeads(NodeContext& ctx, ValueId x, int64_t heads);
// Converts [batch, heads, tokens, width] to [batch, tokens, heads * width].
absl::StatusOr<ValueId> JoinHeads(NodeContext& ctx, ValueId x);

// Repeats key and value heads [batch, heads, tokens, width] that several query
// heads share, so that there are `heads`.
absl::StatusOr<ValueId> RepeatHeads(NodeContext& ctx, ValueId x, int64_t heads);

// Returns a score whose exponential is 0. It is finite, so that a row without
// any key has no NaN.
double HiddenScore(DType dtype);

// Scaled dot product attention of q [batch, heads, queries, width] with k and v
// [batch, heads, keys, ...].
struct HeadAttention {
  ValueId q, k, v;
  // Invalid: none. Is added to the scores and broadcasts to [batch, heads,
  // queries, keys].
  ValueId bias;
  ValueId sink;        // invalid: none. [1, heads, 1, 1]: the score of no key
  double scale = 1;    // of the scores
  double softcap = 0;  // 0: none
  // Query i sees key j iff j <= i + keys - queries.
  bool causal = false;
};
// Emits the op, which has neither a cap nor a sink. Returns [batch, heads,
// queries, width of v].
absl::StatusOr<ValueId> EmitAttention(NodeContext& ctx, const HeadAttention& a);
// Returns the products of queries and keys with their scale, before anything
// else happens to them.
absl::StatusOr<ValueId> AttentionScores(NodeContext& ctx,
                                        const HeadAttention& a);
// Returns softcap * tanh(scores / softcap), or the scores when there is no cap.
absl::StatusOr<ValueId> CappedScores(NodeContext& ctx, ValueId scores,
                                     double softcap);

// Rotary position embedding (Su et al. 2021, arXiv 2104.09864).
struct Rotation {
  ValueId cos, sin;   // [batch or 1, tokens, 1, width / 2]
  int64_t width = 0;  // of the rotated part of each head, even
  bool interleaved = false;
};

// Returns INVALID_ARGUMENT unless `width` is even, at least 2 and at most the
// width of a head.
absl::Status CheckRotation(const NodeContext& ctx, int64_t width,
                           int64_t head_width);
// Returns the rotation that the attributes rotary_embedding_dim and interleaved
// describe, without its tables. Errors as CheckRotation.
absl::StatusOr<Rotation> ReadRotation(const NodeContext& ctx,
                                      int64_t head_width);
// Rotates the first `width` numbers of each head of x [batch, tokens, heads,
// head width]: pairs (a, b) become (a cos - b sin, a sin + b cos).
absl::StatusOr<ValueId> RotateHeads(NodeContext& ctx, ValueId x,
                                    const Rotation& rotation);

}  // namespace gpupool::engine::onnx_import
