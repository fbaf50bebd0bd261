// Tells whether this build runs under a sanitizer, which takes more memory and
// time.
#pragma once

namespace gpupool::engine {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace gpupool::engine
