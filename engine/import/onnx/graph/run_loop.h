// Imports a Loop whose number of iterations depends on computed values. Its
// body becomes stages that run once for each iteration. Internal to the import
// of ONNX.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace onnx {
class ValueInfoProto;
}

namespace gpupool::engine::onnx_import {

// Ends the stage before the loop, or imports an iteration, or continues after
// the loop, as the answers say (engine/model/stage.h).
//   INVALID_ARGUMENT  the body gives a value that is carried through the loop
//                     another type of elements, or a value is no tensor
absl::Status RunLoop(NodeContext& ctx, const onnx::GraphProto& body);

// Returns a scan output of a loop without iterations: no rows of the declared
// type.
absl::StatusOr<ValueId> NoRows(NodeContext& ctx,
                               const onnx::ValueInfoProto& declared);

}  // namespace gpupool::engine::onnx_import
