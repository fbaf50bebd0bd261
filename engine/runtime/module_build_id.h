// An id that tells whether a module and its loader come from the same build.
#pragma once

namespace gpupool::engine {

// Returns a digest of the version and of every header that crosses a module's
// border. The text is never freed.
const char* ModuleBuildId();

}  // namespace gpupool::engine
