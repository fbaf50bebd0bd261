// Reads images between their cells: along each axis a coordinate becomes a few
// cells with weights, called taps. Pure functions of their context.
//
// Cells are rows of [N * cells of an image, C]. They are gathered, and summed
// with the products of their weights.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// One cell along one axis for each sample, with its weight. Cell numbers are
// floating but whole.
struct Tap {
  ValueId cell;
  ValueId weight;
};
using Taps = std::vector<Tap>;

enum class Outside : uint8_t { kZeros, kBorder, kReflection };

struct SampledAxis {
  int64_t size = 1;
  Outside outside = Outside::kZeros;
  bool align_corners = false;
};

// Adds a * x + b.
absl::StatusOr<ValueId> Affine(NodeContext& ctx, double a, ValueId x, double b);

// Clamps x to the cells of an axis.
absl::StatusOr<ValueId> Held(NodeContext& ctx, ValueId x, int64_t size);

// Return the taps of coordinates, where 0 is the middle of the first cell: one
// tap, two, or four.
absl::StatusOr<Taps> NearestTaps(NodeContext& ctx, ValueId x,
                                 const SampledAxis& axis);
absl::StatusOr<Taps> LinearTaps(NodeContext& ctx, ValueId x,
                                const SampledAxis& axis);
absl::StatusOr<Taps> CubicTaps(NodeContext& ctx, ValueId x,
                               const SampledAxis& axis);

struct SampledImage {
  ValueId rows;    // [N * cells, C]
  ValueId number;  // int64: number of each sample's image; broadcasts to taps
  int64_t n = 1, c = 1;
  std::vector<int64_t> sizes;  // spatial
  // Whether the largest weighted cell counts and not their sum, as ONNX defines
  // RoiAlign's mode "max".
  bool maximum = false;

  int64_t cells() const;  // of one image
};

// Returns the rows of x [N, C, ...]. The caller sets `number`.
absl::StatusOr<SampledImage> ReadImage(NodeContext& ctx, ValueId x);

// Adds the sum or the maximum over all combinations of taps. `axes` has the
// taps of each spatial axis. They broadcast to the samples' shape, to which the
// result adds a last axis of C channels.
absl::StatusOr<ValueId> GatherTaps(NodeContext& ctx, const SampledImage& image,
                                   absl::Span<const Taps> axes);

}  // namespace gpupool::engine::onnx_import
