// Exports the layers of sequences: embeddings, attention, and the layers
// between them. Pure functions. Used by ExportLayers alone.
#pragma once

#include <string>

#include "engine/import/onnx/export/node_writer.h"
#include "engine/tensor/shape.h"

namespace gpupool::v1 {
class Attention;
class PickToken;
class Positions;
}  // namespace gpupool::v1

namespace gpupool::engine::onnx_import {

// Add the nodes of a layer that reads the value `x`, whose shape is `input` for
// one example, and return the layer's output. The writer must have begun the
// layer.
std::string AddEmbedding(const std::string& x, NodeWriter& writer);
std::string AddImageTokens(const std::string& x, NodeWriter& writer);
std::string AddClassToken(const Shape& input, const std::string& x,
                          NodeWriter& writer);
std::string AddPositions(const v1::Positions& positions, const Shape& input,
                         const std::string& x, NodeWriter& writer);
std::string AddAttention(const v1::Attention& attention, const Shape& input,
                         const std::string& x, NodeWriter& writer);
std::string AddPickToken(const v1::PickToken& pick, const std::string& x,
                         NodeWriter& writer);
std::string AddMeanTokens(const std::string& x, NodeWriter& writer);

}  // namespace gpupool::engine::onnx_import
