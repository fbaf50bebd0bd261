// Exports the layers of sequences: embeddings, attention, and what is between
// them. Pure functions. Used by ExportLayers alone.
#pragma once

#include <string>

#include "engine/import/onnx/export/node_writer.h"
#include "engine/tensor/shape.h"

namespace gpupool::v1 {
class Layer;
}

namespace gpupool::engine::onnx_import {

// Adds the nodes of a layer that reads the value `x`, whose shape is `input`
// for one example. Returns the layer's output. The writer must have begun the
// layer.
std::string AddSequenceNodes(const v1::Layer& layer, const Shape& input,
                             const std::string& x, NodeWriter& writer);

}  // namespace gpupool::engine::onnx_import
