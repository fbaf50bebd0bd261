// Well-formed ONNX files that ask for far more than they are: small on disk,
// without end in time or memory for an importer that believes them. Made of
// libonnx's messages; nothing random.
#pragma once

#include <string>
#include <vector>

namespace gpupool::engine::onnx_import {

struct HostileModel {
  std::string name;  // a test's name
  // What every refusal has to say; empty where the model may be imported.
  std::string refusal;
  std::string (*make)();  // the file's bytes
};

// Constants, shapes and geometry.
std::vector<HostileModel> HostileNumbers();
// Loops, functions, subgraphs, names, lists.
std::vector<HostileModel> HostileStructures();

}  // namespace gpupool::engine::onnx_import
