// Well-formed ONNX files that are small on disk but ask for unlimited time or
// memory if the importer trusts them. They are made with libonnx's messages and
// are not random.
#pragma once

#include <string>
#include <vector>

namespace gpupool::engine::onnx_import {

struct HostileModel {
  std::string name;  // name of a test
  // Text that every refusal must contain; empty if the model may be imported.
  std::string refusal;
  std::string (*make)();  // the file's bytes
};

// Returns files with hostile constants, shapes and geometry.
std::vector<HostileModel> HostileNumbers();
// Returns files with hostile loops, functions, subgraphs, names and lists.
std::vector<HostileModel> HostileStructures();

}  // namespace gpupool::engine::onnx_import
