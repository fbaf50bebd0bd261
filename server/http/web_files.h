// The files of the web page, which are part of the program. The build writes
// their bytes into a source file (cmake/embed.cmake).
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::server {

struct WebFile {
  absl::string_view name;  // path under server/http/web: "pages/pool.js"
  absl::string_view bytes;
};

// Returns all files of the page.
absl::Span<const WebFile> WebFiles();

}  // namespace gpupool::server
