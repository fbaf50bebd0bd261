// Steps that the lowerings of ONNX Runtime's operators share. Pure functions of
// the context.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

inline constexpr absl::string_view kMicrosoft = "com.microsoft";

// Returns x + y. INVALID_ARGUMENT unless y broadcasts to x's shape. `what`
// describes y, as "bias".
absl::StatusOr<ValueId> PlusPart(NodeContext& ctx, ValueId x, ValueId y,
                                 absl::string_view what);
// Does the same with input i. Returns x where that input is absent.
absl::StatusOr<ValueId> PlusInput(NodeContext& ctx, ValueId x, int i,
                                  absl::string_view what);

// Returns UNIMPLEMENTED unless the attribute is absent or has this value.
absl::Status RequireInt(NodeContext& ctx, absl::string_view name,
                        int64_t value);

// Applies an activation of ONNX Runtime's fused operators. `numbers` are its
// parameters in order. Those that are left out have the activation's defaults.
struct FusedActivation {
  std::string name;  // "Relu"; empty: none
  std::vector<double> numbers;
};
absl::StatusOr<ValueId> Activate(NodeContext& ctx, ValueId x,
                                 const FusedActivation& activation);

// Convert images and volumes between [N, ..., C] and [N, C, ...].
absl::StatusOr<ValueId> ChannelsFirst(NodeContext& ctx, ValueId x);
absl::StatusOr<ValueId> ChannelsLast(NodeContext& ctx, ValueId x);

// Returns input i as one floating number of rank 0.
absl::StatusOr<ValueId> OneNumber(NodeContext& ctx, int i,
                                  absl::string_view what);

}  // namespace gpupool::engine::onnx_import
