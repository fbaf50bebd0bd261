// Where the upload of a file begins, and whether a broken one is tried again.
//
//   UploadTries tries(client);
//   do {
//     tries.Start();
//     part = tries.PartOf(name, facts);      // for each file
//     status = ... send the bytes from part.offset() on ...
//   } while (tries.Again(status, bytes_on_the_server));
//
// Thread-safety: one thread for each object. The client must outlive it.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/files/local_file.h"
#include "client/retry.h"
#include "gpupool/v1/upload.pb.h"

namespace gpupool::client {

class Client;

// Smaller files are sent anew. Asking what the server has would take longer.
inline constexpr uint64_t kLeastResumedBytes = uint64_t{4} << 20;

class UploadTries {
 public:
  explicit UploadTries(Client& client);

  // Begins a try. A server keeps one upload of equal files, so PartOf gives
  // only the first of them a key.
  void Start() { keys_.clear(); }

  // Returns the key of a file, its digest, and the bytes that the server has.
  // There is no key for a small file, and for a server that keeps nothing.
  // Tells ClientOptions::upload_notice where the upload goes on. Blocks while
  // the server stores a complete file or waits for a stream that may be dead.
  // Cancelled when ClientOptions::upload_stop is requested.
  absl::StatusOr<v1::UploadPart> PartOf(const std::string& name,
                                        const FileFacts& file);

  // Returns whether a try that ended with `status` should be followed by
  // another, and waits before that. `reached` is the number of bytes that were
  // sent or had been kept. If there is a key, a try that reached more than all
  // before it opens a new window of two minutes for retries. Otherwise the
  // window is ClientOptions::retry_window from the beginning.
  bool Again(const absl::Status& status, uint64_t reached);

  // Cancelled, with what to do, when ClientOptions::upload_stop is requested.
  absl::Status CheckStop() const;

 private:
  // Asks until no stream writes the upload, or it is given up as one that
  // others write.
  absl::StatusOr<v1::Upload> AwaitIdle(const std::string& key);
  void Tell(const std::string& line) const;

  Client& client_;
  Backoff backoff_;
  std::set<std::string> keys_;
  bool server_keeps_ = true;
  uint64_t most_reached_ = 0;
  int aborted_ = 0;  // tries in a row
  absl::Time last_try_;
};

}  // namespace gpupool::client
