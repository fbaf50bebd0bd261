// The architectures for which the module's kernels were compiled. CMake writes
// the list next to nvcc's flags. tools/fatbin_list.py reads the same from the
// built file.
#pragma once

#include "engine/runtime/module_architectures.h"

namespace gpupool::engine::cuda {

ModuleArchitectures BuiltArchitectures();

}  // namespace gpupool::engine::cuda
