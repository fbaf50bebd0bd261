// Writes a graph's constants as bytes. Pure.
#pragma once

#include <cstddef>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// Writes the constant's elements, row-major and converted to the value's type,
// to value.bytes() bytes at `data`.
void WriteConstant(const Value& value, std::byte* data);

}  // namespace gpupool::engine
