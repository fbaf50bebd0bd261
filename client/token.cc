#include "client/token.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/local_socket.h"
#include "client/text/text_file.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostFileBytes = 4096;
// The server takes no longer header.
constexpr size_t kMostTokenBytes = 500;

// Returns whether the text can be the value of a header. gRPC ends the process
// for other bytes.
bool IsOneWord(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c > 0x20 && c < 0x7f; });
}

absl::StatusOr<std::string> CheckedToken(absl::string_view text,
                                         absl::string_view source) {
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  if (token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " has no token; write one into it"));
  }
  // Never shows the text, which may be a secret.
  if (!IsOneWord(token) || token.size() > kMostTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, " has no token but ", token.size(),
        " bytes of other text; a token is one word, as `gpupool tokens create` "
        "prints it"));
  }
  return std::string(token);
}

}  // namespace

absl::StatusOr<std::string> TokenOf(const TokenOptions& options) {
  if (!options.token.empty()) {
    return CheckedToken(options.token, "GPUPOOL_TOKEN");
  }
  if (options.file.empty()) return std::string();
  const auto text = ReadTextFile(options.file, kMostFileBytes);
  if (!text.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token's file: ", text.status().message(),
                     "; --token-file and GPUPOOL_TOKEN_FILE name it"));
  }
  return CheckedToken(*text, options.file);
}

bool IsOnThisMachine(absl::string_view address) {
  if (IsSocketAddress(address)) return true;
  const absl::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  // 127.0.0.0/8, and no name such as 127.example.org.
  return absl::StartsWith(host, "127.") &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) ||
                  c == '.';
         });
}

absl::Status CheckTokenIsSafe(const ClientOptions& options) {
  if (!options.tls.ca.empty() || options.token.insecure ||
      IsOnThisMachine(options.address)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the token would be sent to ", options.address,
      " in the clear; give the certificate of the server's authority with --ca "
      "or GPUPOOL_CA, or send it all the same with --insecure"));
}

}  // namespace gpupool::client
