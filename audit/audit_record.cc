#include "audit/audit_record.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gpupool::audit {
namespace {

// Texts come from callers. No byte of them takes more than six in JSON, so that
// all texts of a record fit a line.
constexpr size_t kMostText = 300;

bool IsDigest(absl::string_view text) {
  return text.size() == kNoDigest.size() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string LineOf(const Record& record, const Place& place) {
  nlohmann::ordered_json json;
  json["sequence"] = place.sequence;
  json["time"] = absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", record.time,
                                  absl::UTCTimeZone());
  const auto add = [&json](const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text.substr(0, kMostText);
  };
  add("event", record.event);
  add("identity", record.identity);
  if (record.token != 0) json["token"] = record.token;
  add("name", record.name);
  add("tenant", record.tenant);
  add("role", record.role);
  add("peer", record.peer);
  add("uid", record.uid);
  add("method", record.method);
  add("object", record.object);
  add("request_id", record.request_id);
  add("outcome", record.outcome);
  add("note", record.note);
  json["previous"] = place.previous;
  // ASCII, so that no name steers the terminal of who reads it.
  return json.dump(-1, ' ', /*ensure_ascii=*/true,
                   nlohmann::ordered_json::error_handler_t::replace);
}

absl::StatusOr<Place> PlaceIn(absl::string_view line) {
  const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr,
                                          /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("the line is not a JSON object");
  }
  const auto sequence = json.find("sequence");
  if (sequence == json.end() || !sequence->is_number_unsigned()) {
    return absl::InvalidArgumentError("the record has no sequence number");
  }
  const auto previous = json.find("previous");
  if (previous == json.end() || !previous->is_string() ||
      !IsDigest(previous->get_ref<const std::string&>())) {
    return absl::InvalidArgumentError(
        "the record has no digest of the record before it");
  }
  return Place{.sequence = sequence->get<uint64_t>(),
               .previous = previous->get<std::string>()};
}

std::string DigestOfLine(absl::string_view line) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  unsigned size = 0;
  // Fails only for lack of memory. An empty digest then breaks the chain.
  if (EVP_Digest(line.data(), line.size(), digest.data(), &size, EVP_sha256(),
                 nullptr) != 1) {
    return {};
  }
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(digest.data()), size_t{size}));
}

}  // namespace gpupool::audit
