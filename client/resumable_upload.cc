#include "client/resumable_upload.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/client.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

// Time for which an upload that broke in the middle is tried again. A server
// that is restarted or updated is back by then.
constexpr absl::Duration kBrokenWindow = absl::Minutes(2);
// The server gives an upload to another stream after 10 silent seconds.
constexpr absl::Duration kSilentPatience = absl::Seconds(15);
// The server reads a dataset of images in at most 10 minutes.
constexpr absl::Duration kStoringPatience = absl::Minutes(15);
constexpr int kMostAborted = 3;

}  // namespace

UploadTries::UploadTries(Client& client)
    : client_(client),
      backoff_({}, std::random_device()()),
      last_try_(absl::Now() + client.options().retry_window) {}

void UploadTries::Tell(const std::string& line) const {
  if (client_.options().upload_notice) client_.options().upload_notice(line);
}

absl::Status UploadTries::CheckStop() const {
  if (!client_.options().upload_stop.stop_requested()) return absl::OkStatus();
  return absl::CancelledError(
      "the upload was interrupted; the same command goes on with it");
}

absl::StatusOr<v1::Upload> UploadTries::AwaitIdle(const std::string& key) {
  v1::GetUploadRequest request;
  request.set_upload_key(key);
  Backoff backoff({}, std::random_device()());
  const absl::Time begun = absl::Now();
  while (true) {
    const absl::StatusOr<v1::Upload> kept = client_.GetUpload(request);
    if (!kept.ok() || !kept->in_use()) return kept;
    const bool complete = kept->bytes() == kept->total_bytes();
    const absl::Duration patience =
        complete ? kStoringPatience : kSilentPatience;
    // Others write it. The server stores a second upload beside the first.
    if (absl::Now() - begun > patience) {
      return absl::NotFoundError("another client uploads the file");
    }
    if (!SleepUnlessStopped(backoff.Next(), client_.options().upload_stop)) {
      return CheckStop();
    }
  }
}

absl::StatusOr<v1::UploadPart> UploadTries::PartOf(const std::string& name,
                                                   const FileFacts& file) {
  v1::UploadPart part;
  if (file.bytes < kLeastResumedBytes || !server_keeps_ ||
      !keys_.insert(file.sha256).second) {
    return part;
  }
  const absl::StatusOr<v1::Upload> kept = AwaitIdle(file.sha256);
  if (absl::IsUnimplemented(kept.status())) {
    server_keeps_ = false;  // a server of an earlier version
    return part;
  }
  if (!kept.ok() && !absl::IsNotFound(kept.status())) return kept.status();
  part.set_upload_key(file.sha256);
  // Whoever chose the same key for other bytes loses them.
  if (!kept.ok() || kept->sha256() != file.sha256 ||
      kept->total_bytes() != file.bytes || kept->bytes() > file.bytes) {
    return part;
  }
  part.set_offset(kept->bytes());
  if (part.offset() > 0) {
    Tell(absl::StrCat(name, ": resumed at ", FormatBytes(part.offset()), " of ",
                      FormatBytes(file.bytes)));
  }
  return part;
}

bool UploadTries::Again(const absl::Status& status, uint64_t reached) {
  const bool keyed = !keys_.empty();
  const bool aborted = keyed && absl::IsAborted(status);
  if (!aborted && !IsRetryable(status)) return false;
  if (client_.options().retry_window <= absl::ZeroDuration()) return false;
  // A server that was asked for the upload was there.
  if (keyed && reached > most_reached_) {
    most_reached_ = reached;
    aborted_ = 0;
    last_try_ =
        absl::Now() + std::max(client_.options().retry_window, kBrokenWindow);
    backoff_.Reset();
    Tell(absl::StrCat("the upload broke (", status.message(),
                      "); trying again for ",
                      FormatSpan(last_try_ - absl::Now())));
  }
  if (aborted && ++aborted_ > kMostAborted) return false;
  const absl::Duration wait = backoff_.Next();
  if (absl::Now() + wait > last_try_) return false;
  return SleepUnlessStopped(wait, client_.options().upload_stop);
}

}  // namespace gpupool::client
