#include "server/http/port/response_head.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

bool IsOneLine(absl::string_view text) {
  return text.find_first_of(absl::string_view("\r\n\0", 3)) == text.npos;
}

// Returns the text of a status, as in "Not Found".
absl::string_view ReasonOf(int status) {
  constexpr std::pair<int, absl::string_view> kReasons[] = {
      {200, "OK"},
      {304, "Not Modified"},
      {400, "Bad Request"},
      {401, "Unauthorized"},
      {403, "Forbidden"},
      {404, "Not Found"},
      {405, "Method Not Allowed"},
      {408, "Request Timeout"},
      {409, "Conflict"},
      {413, "Payload Too Large"},
      {414, "URI Too Long"},
      {415, "Unsupported Media Type"},
      {417, "Expectation Failed"},
      {429, "Too Many Requests"},
      {431, "Request Header Fields Too Large"},
      {499, "Client Closed Request"},
      {500, "Internal Server Error"},
      {501, "Not Implemented"},
      {503, "Service Unavailable"},
      {504, "Gateway Timeout"}};
  for (const auto& [known, reason] : kReasons) {
    if (known == status) return reason;
  }
  return "Unknown";
}

}  // namespace

std::string ResponseHead(const HttpResponse& response,
                         const ResponseFrame& frame) {
  std::string head = absl::StrCat("HTTP/1.1 ", response.status, " ",
                                  ReasonOf(response.status), "\r\n");
  for (const HttpHeader& header : response.headers) {
    if (!IsOneLine(header.name) || !IsOneLine(header.value)) continue;
    absl::StrAppend(&head, header.name, ": ", header.value, "\r\n");
  }
  if (frame.chunked) head += "Transfer-Encoding: chunked\r\n";
  if (frame.content_length.has_value()) {
    absl::StrAppend(&head, "Content-Length: ", *frame.content_length, "\r\n");
  }
  absl::StrAppend(&head,
                  "Connection: ", frame.keep_alive ? "keep-alive" : "close",
                  "\r\n\r\n");
  return head;
}

std::string ChunkOf(absl::string_view text) {
  return absl::StrCat(absl::Hex(text.size()), "\r\n", text, "\r\n");
}

}  // namespace gpupool::server
