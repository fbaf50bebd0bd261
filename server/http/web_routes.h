// The routes of the web page:
//
//   GET /            the page
//   GET /web/NAME    a file of the page (web_files.h)
//
// Every answer forbids the page to load anything from other hosts, and to be
// shown within other pages. Browsers keep the files and ask whether they have
// changed (ETag).
//
// Thread-safety: that of the router. What the routes need lives as long as the
// process.
#pragma once

#include "absl/strings/string_view.h"
#include "server/http/port/router.h"

namespace gpupool::server {

// Adds the routes, all of which are answered on the thread of the port.
void AddWebRoutes(HttpRouter* router);

// Returns the type of a file by the end of its name, as in "text/css".
absl::string_view ContentTypeOf(absl::string_view name);

}  // namespace gpupool::server
