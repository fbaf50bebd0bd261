// Turns a graph's constants into bytes. Pure.
#pragma once

#include <cstddef>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// Writes the constant's elements, row-major, to value.bytes() bytes at `data`,
// each converted to the value's type.
void WriteConstant(const Value& value, std::byte* data);

}  // namespace gpupool::engine
