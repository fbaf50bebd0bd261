// The certificate of the HTTP port. It is read again when its files change.
//
// Thread-safety: any thread. Must outlive the contexts that it sets up.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "tls/tls_files.h"

namespace gpupool::server {

class ServedCertificate {
 public:
  // Reads and checks the files, as tls::ReadServerFiles does.
  static absl::StatusOr<std::unique_ptr<ServedCertificate>> Load(
      const tls::TlsFiles& files);
  ~ServedCertificate();

  // Makes the context speak TLS 1.2 and 1.3 with the certificate of the moment
  // at which a connection begins. If there are authorities of clients, a
  // connection without a certificate of one of them is refused. Returns false
  // when OpenSSL fails.
  bool SetUp(SSL_CTX& context);

 private:
  struct Loaded;
  // Inode, size, and time of the last change in nanoseconds of each file, by
  // which a change is noticed. All are 0 for a missing file.
  using Stamp = std::array<int64_t, 9>;

  explicit ServedCertificate(const tls::TlsFiles& files) : files_(files) {}

  // Gives a connection its certificate. For OpenSSL, which passes `self`.
  static int Apply(SSL* connection, void* self);
  static absl::StatusOr<std::shared_ptr<const Loaded>> Read(
      const tls::TlsFiles& files);
  Stamp StampNow() const;
  // Returns the contents of the files. After a change for the worse, logs it
  // once and returns the contents from before.
  std::shared_ptr<const Loaded> Current();

  const tls::TlsFiles files_;
  absl::Mutex mutex_;
  Stamp stamp_ ABSL_GUARDED_BY(mutex_) = {};
  std::shared_ptr<const Loaded> loaded_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
