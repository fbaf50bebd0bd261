#include "server/http/web_routes.h"

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/http/http_status.h"
#include "server/http/web_files.h"

namespace gpupool::server {
namespace {

constexpr char kPage[] = "index.html";
// Styles set by scripts through the document's objects need no exception.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

const WebFile* FindWebFile(absl::string_view name) {
  for (const WebFile& file : WebFiles()) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

// Returns a mark that differs when the bytes do. Only this program compares it,
// so it need not be the same in other builds.
std::string TagOf(const WebFile& file) {
  return absl::StrFormat(
      "\"%x-%x\"", file.bytes.size(),
      std::hash<std::string_view>()({file.bytes.data(), file.bytes.size()}));
}

HttpResponse Serve(absl::string_view name, const HttpRequest& request) {
  const WebFile* file = FindWebFile(name);
  if (file == nullptr) {
    return ErrorAnswer(absl::NotFoundError(absl::StrCat("no ", request.path)));
  }
  const std::string tag = TagOf(*file);
  HttpResponse response;
  response.Set("Content-Security-Policy", kPolicy);
  response.Set("X-Content-Type-Options", "nosniff");
  response.Set("Referrer-Policy", "no-referrer");
  response.Set("Cache-Control", "no-cache");
  response.Set("ETag", tag);
  if (request.Header("If-None-Match") == tag) {
    response.status = 304;
    return response;
  }
  response.Set("Content-Type", std::string(ContentTypeOf(name)));
  response.body = std::string(file->bytes);
  return response;
}

}  // namespace

absl::string_view ContentTypeOf(absl::string_view name) {
  constexpr std::pair<absl::string_view, absl::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"}};
  for (const auto& [end, type] : kTypes) {
    if (absl::EndsWith(name, end)) return type;
  }
  return "text/plain; charset=utf-8";
}

void AddWebRoutes(HttpRouter* router) {
  router->Add(
      {.method = "GET",
       .pattern = "/",
       .calls = kOpenToAll,
       .answer = [](HttpRequest& request) { return Serve(kPage, request); }});
  router->Add({.method = "GET",
               .pattern = "/web/**",
               .calls = kOpenToAll,
               .answer = [](HttpRequest& request) {
                 return Serve(request.parts[0], request);
               }});
}

}  // namespace gpupool::server
