// Describes an ONNX file for people: who wrote it, in which versions, with
// which operators and stored tensors. Pure.
#pragma once

#include "engine/import/onnx/file/onnx_file.h"
#include "gpupool/v1/model_check.pb.h"

namespace gpupool::engine::onnx_import {

// Returns the facts. Copies that UnshareNorms made count as stored tensors.
v1::OnnxFacts DescribeFile(const OnnxFile& file);

}  // namespace gpupool::engine::onnx_import
