#include "tls/pem.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <ctime>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpupool::tls {
namespace {

// Refuses to give a passphrase. Otherwise OpenSSL would ask at the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) {
    return absl::InfinitePast();
  }
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string DayOf(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", time, absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<std::vector<CertificateHandle>> ParseCertificates(
    absl::string_view pem, absl::string_view name) {
  const BioHandle reader = ReaderOf(pem);
  std::vector<CertificateHandle> all;
  ERR_clear_error();
  while (true) {
    CertificateHandle one(
        PEM_read_bio_X509(reader.get(), nullptr, NoPassphrase, nullptr));
    if (one == nullptr) break;
    all.push_back(std::move(one));
  }
  const bool ended =
      ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = TakeOpenSslError();
  if (!ended) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " has a damaged certificate: ", reason, "; write it again"));
  }
  if (all.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     " has no certificate in PEM form, which begins with "
                     "-----BEGIN CERTIFICATE-----"));
  }
  return all;
}

absl::StatusOr<KeyHandle> ParseKey(absl::string_view pem,
                                   absl::string_view name) {
  if (absl::StrContains(pem, "ENCRYPTED")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the key in ", name,
        " is encrypted; write it without a passphrase: openssl pkey -in ", name,
        " -out FILE"));
  }
  const BioHandle reader = ReaderOf(pem);
  KeyHandle key(
      PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, nullptr));
  const std::string reason = TakeOpenSslError();
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(absl::StrCat(
      name, " has no private key in PEM form, which begins with ",
      "-----BEGIN PRIVATE KEY----- or -----BEGIN EC PRIVATE KEY-----: ",
      reason));
}

absl::Status CheckValidity(const X509& certificate, absl::Time now,
                           absl::string_view name) {
  const absl::Time begin = TimeOf(X509_get0_notBefore(&certificate));
  const absl::Time end = ExpiryOf(certificate);
  if (now > end) {
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate in ", name, " expired at ", DayOf(end),
                     "; put a new one in its place"));
  }
  if (now < begin) {
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate in ", name, " is valid only from ",
                     DayOf(begin), " on; is this machine's clock right?"));
  }
  return absl::OkStatus();
}

absl::Time ExpiryOf(const X509& certificate) {
  return TimeOf(X509_get0_notAfter(&certificate));
}

absl::Time ExpiryOf(absl::string_view pem) {
  const auto all = ParseCertificates(pem, "the text");
  return all.ok() ? ExpiryOf(*all->front()) : absl::InfinitePast();
}

}  // namespace gpupool::tls
