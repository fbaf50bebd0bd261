#include "server/http/web_routes.h"

#include <httplib.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/http/rest/rest_json.h"
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

void Serve(absl::string_view name, const httplib::Request& request,
           httplib::Response& response) {
  const WebFile* file = FindWebFile(name);
  if (file == nullptr) {
    response.status = 404;
    response.set_content(ErrorJson(absl::StrCat("no ", request.path)),
                         "application/json");
    return;
  }
  const std::string tag = TagOf(*file);
  response.set_header("Content-Security-Policy", kPolicy);
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Referrer-Policy", "no-referrer");
  response.set_header("Cache-Control", "no-cache");
  response.set_header("ETag", tag);
  if (request.get_header_value("If-None-Match") == tag) {
    response.status = 304;
    return;
  }
  response.set_content(file->bytes.data(), file->bytes.size(),
                       std::string(ContentTypeOf(name)));
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

void AddWebRoutes(httplib::Server& server) {
  server.Get("/", [](const auto& request, auto& response) {
    Serve(kPage, request, response);
  });
  server.Get("/web/(.+)", [](const auto& request, auto& response) {
    Serve(request.matches[1].str(), request, response);
  });
}

}  // namespace gpupool::server
