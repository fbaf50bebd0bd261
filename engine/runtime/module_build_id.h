// Tells builds apart whose modules and loaders do not fit.
#pragma once

namespace gpupool::engine {

// A digest of the version and of every header that crosses a module's border.
// The text lives for ever.
const char* ModuleBuildId();

}  // namespace gpupool::engine
