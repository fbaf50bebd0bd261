// Tells UTF-8 from other bytes (RFC 3629). Pure functions; from any thread.
#pragma once

#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns whether all bytes of the text are UTF-8. Long forms, surrogates and
// numbers above 10FFFF are not.
bool IsUtf8(absl::string_view text);

}  // namespace gpupool::client
