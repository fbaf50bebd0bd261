#include "server/http/served_certificate.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "tls/openssl_handles.h"
#include "tls/pem.h"

namespace gpupool::server {

struct ServedCertificate::Loaded {
  std::vector<tls::CertificateHandle> chain;  // the own one first
  tls::KeyHandle key;
  tls::StoreHandle client_authorities;  // null: any client may call
};

ServedCertificate::~ServedCertificate() = default;

absl::StatusOr<std::shared_ptr<const ServedCertificate::Loaded>>
ServedCertificate::Read(const tls::TlsFiles& files) {
  const auto pem = tls::ReadServerFiles(files, absl::Now());
  if (!pem.ok()) return pem.status();
  auto loaded = std::make_shared<Loaded>();
  auto chain = tls::ParseCertificates(pem->own.certificate, files.certificate);
  if (!chain.ok()) return chain.status();
  loaded->chain = *std::move(chain);
  auto key = tls::ParseKey(pem->own.key, files.key);
  if (!key.ok()) return key.status();
  loaded->key = *std::move(key);
  if (pem->client_authorities.empty()) return loaded;
  const auto authorities =
      tls::ParseCertificates(pem->client_authorities, files.client_ca);
  if (!authorities.ok()) return authorities.status();
  loaded->client_authorities.reset(X509_STORE_new());
  for (const tls::CertificateHandle& one : *authorities) {
    if (X509_STORE_add_cert(loaded->client_authorities.get(), one.get()) != 1) {
      return absl::InternalError("OpenSSL cannot store an authority: " +
                                 tls::TakeOpenSslError());
    }
  }
  return loaded;
}

absl::StatusOr<std::unique_ptr<ServedCertificate>> ServedCertificate::Load(
    const tls::TlsFiles& files) {
  auto served = absl::WrapUnique(new ServedCertificate(files));
  absl::MutexLock lock(&served->mutex_);
  served->stamp_ = served->StampNow();
  auto loaded = Read(files);
  if (!loaded.ok()) return loaded.status();
  served->loaded_ = *std::move(loaded);
  return served;
}

ServedCertificate::Stamp ServedCertificate::StampNow() const {
  Stamp stamp = {};
  size_t at = 0;
  for (const std::string& path :
       {files_.certificate, files_.key, files_.client_ca}) {
    struct stat facts = {};
    if (path.empty() || ::stat(path.c_str(), &facts) != 0) facts = {};
    stamp[at++] = static_cast<int64_t>(facts.st_ino);
    stamp[at++] = facts.st_size;
    // A change of the mode counts, too, because it may be the remedy.
    stamp[at++] =
        facts.st_ctim.tv_sec * int64_t{1'000'000'000} + facts.st_ctim.tv_nsec;
  }
  return stamp;
}

std::shared_ptr<const ServedCertificate::Loaded> ServedCertificate::Current() {
  absl::MutexLock lock(&mutex_);
  // Taken before the files are read. If one changes meanwhile, the next
  // connection reads them again.
  const Stamp now = StampNow();
  if (now == stamp_) return loaded_;
  stamp_ = now;
  auto loaded = Read(files_);
  if (loaded.ok()) {
    loaded_ = *std::move(loaded);
    spdlog::info("HTTP has a new certificate file={}", files_.certificate);
  } else {
    spdlog::warn(
        "HTTP keeps its certificate, the changed files are wrong "
        "error=\"{}\"",
        std::string(loaded.status().message()));
  }
  return loaded_;
}

int ServedCertificate::Apply(SSL* connection, void* self) {
  const auto loaded = static_cast<ServedCertificate*>(self)->Current();
  if (SSL_use_cert_and_key(connection, loaded->chain.front().get(),
                           loaded->key.get(), nullptr, 1) != 1) {
    return 0;
  }
  for (size_t i = 1; i < loaded->chain.size(); ++i) {
    if (SSL_add1_chain_cert(connection, loaded->chain[i].get()) != 1) return 0;
  }
  if (loaded->client_authorities == nullptr) return 1;
  return static_cast<int>(
      SSL_set1_verify_cert_store(connection, loaded->client_authorities.get()));
}

bool ServedCertificate::SetUp(SSL_CTX& context) {
  SSL_CTX_set_options(&context, SSL_OP_NO_COMPRESSION |
                                    SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  // Without these a client could go on with a session of a certificate that
  // counts no more.
  SSL_CTX_set_session_cache_mode(&context, SSL_SESS_CACHE_OFF);
  if (SSL_CTX_set_num_tickets(&context, 0) != 1 ||
      SSL_CTX_set_min_proto_version(&context, TLS1_2_VERSION) != 1) {
    return false;
  }
  if (!files_.client_ca.empty()) {
    SSL_CTX_set_verify(
        &context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  SSL_CTX_set_cert_cb(&context, Apply, this);
  return true;
}

}  // namespace gpupool::server
