// Chooses channels-last for the image regions around convolutions, and adds
// explicit layout_convert nodes at their borders. Inputs, outputs, persistent
// values and convolution weights stay row-major. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status ChooseLayout(Graph& graph);

}  // namespace gpupool::engine
