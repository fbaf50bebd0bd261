// What the module's kernels were compiled for: a list that CMake writes beside
// the flags of nvcc. tools/fatbin_list.py reads the same from the file itself.
//
// Thread-safety: a pure function.
#pragma once

#include "engine/runtime/module_architectures.h"

namespace gpupool::engine::cuda {

ModuleArchitectures BuiltArchitectures();

}  // namespace gpupool::engine::cuda
