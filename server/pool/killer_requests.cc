#include "server/pool/killer_requests.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/sha256.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {

std::string DigestOfRequest(worker::v1::ToWorker message) {
  message.clear_request_id();
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    // Equal maps could otherwise give different bytes.
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return engine::Sha256Hex(bytes);
}

void KillerRequests::Add(const std::string& digest, TimePoint now) {
  for (auto it = kills_.begin(); it != kills_.end();) {
    it = now - it->second.latest >= kRefusedFor ? kills_.erase(it)
                                                : std::next(it);
  }
  Kills& kills = kills_[digest];
  ++kills.count;
  kills.latest = now;
  if (kills_.size() <= kMaxKillerRequests) return;
  kills_.erase(std::min_element(kills_.begin(), kills_.end(),
                                [](const auto& a, const auto& b) {
                                  return a.second.latest < b.second.latest;
                                }));
}

absl::Status KillerRequests::Check(const std::string& digest,
                                   TimePoint now) const {
  const auto it = kills_.find(digest);
  if (it == kills_.end() || it->second.count < kKillsUntilRefused) {
    return absl::OkStatus();
  }
  const auto left = it->second.latest + kRefusedFor - now;
  if (left <= left.zero()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "reading or planning it has ended the planner ", it->second.count,
      " times; the same request is refused for another ",
      absl::FormatDuration(
          absl::Ceil(absl::FromChrono(left), absl::Seconds(1))),
      "; change it, or send it again then"));
}

}  // namespace gpupool::server
