#include "tls/authority.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tls/openssl_handles.h"
#include "tls/pem.h"

namespace gpupool::tls {
namespace {

constexpr size_t kMostHosts = 100;
// Limits of RFC 1035 and of common names in RFC 5280.
constexpr size_t kLongestHost = 253;
constexpr size_t kLongestLabel = 63;
constexpr size_t kLongestName = 64;

// An extension of a certificate, as OpenSSL's configuration files write it.
struct ExtensionText {
  int kind;
  std::string value;
};

// A certificate that is still to be signed.
struct Draft {
  absl::string_view name;
  Validity validity;
  std::vector<ExtensionText> extensions;
};

// The signer of a certificate; null pointers for one that signs itself.
struct Signer {
  X509* certificate = nullptr;
  EVP_PKEY* key = nullptr;
};

absl::Status Failure(absl::string_view what) {
  return absl::InternalError(
      absl::StrCat("OpenSSL cannot ", what, ": ", TakeOpenSslError()));
}

bool SetSerial(X509* certificate) {
  std::array<unsigned char, 16> bytes = {};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  // RFC 5280 wants a positive number of at most 20 bytes. The set bit keeps its
  // length constant.
  bytes[0] = static_cast<unsigned char>((bytes[0] & 0x7f) | 0x40);  // above 0
  const std::unique_ptr<BIGNUM, FreeWith<&BN_free>> number(
      BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  return number != nullptr &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) !=
             nullptr;
}

bool SetName(X509* certificate, absl::string_view name) {
  return X509_NAME_add_entry_by_txt(
             X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
             reinterpret_cast<const unsigned char*>(name.data()),
             static_cast<int>(name.size()), -1, 0) == 1;
}

bool SetValidity(X509* certificate, const Validity& validity) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate),
                       absl::ToTimeT(validity.from)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate),
                       absl::ToTimeT(validity.until)) != nullptr;
}

bool AddExtension(X509* certificate, X509* issuer, const ExtensionText& text) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionHandle extension(
      X509V3_EXT_nconf_nid(nullptr, &context, text.kind, text.value.c_str()));
  return extension != nullptr &&
         X509_add_ext(certificate, extension.get(), -1) == 1;
}

absl::StatusOr<std::string> TextOf(const X509& certificate) {
  const BioHandle writer(BIO_new(BIO_s_mem()));
  if (writer == nullptr ||
      PEM_write_bio_X509(writer.get(), &certificate) != 1) {
    return Failure("write a certificate");
  }
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

absl::StatusOr<std::string> TextOf(const EVP_PKEY& key) {
  const BioHandle writer(BIO_new(BIO_s_mem()));
  if (writer == nullptr ||
      PEM_write_bio_PrivateKey(writer.get(), &key, nullptr, nullptr, 0, nullptr,
                               nullptr) != 1) {
    return Failure("write a key");
  }
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

absl::StatusOr<PemPair> TextsOf(const X509& certificate, const EVP_PKEY& key) {
  auto certificate_text = TextOf(certificate);
  if (!certificate_text.ok()) return certificate_text.status();
  auto key_text = TextOf(key);
  if (!key_text.ok()) return key_text.status();
  return PemPair{*std::move(certificate_text), *std::move(key_text)};
}

absl::StatusOr<PemPair> Sign(const Draft& draft, const Signer& signer) {
  const KeyHandle key(EVP_EC_gen("P-256"));
  const CertificateHandle certificate(X509_new());
  if (key == nullptr || certificate == nullptr) return Failure("make a key");
  X509* issuer =
      signer.certificate == nullptr ? certificate.get() : signer.certificate;
  const bool filled =
      X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
      SetSerial(certificate.get()) && SetName(certificate.get(), draft.name) &&
      SetValidity(certificate.get(), draft.validity) &&
      X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer)) ==
          1 &&
      X509_set_pubkey(certificate.get(), key.get()) == 1 &&
      std::all_of(draft.extensions.begin(), draft.extensions.end(),
                  [&](const ExtensionText& text) {
                    return AddExtension(certificate.get(), issuer, text);
                  });
  if (!filled) return Failure("fill in a certificate");
  EVP_PKEY* signing = signer.key == nullptr ? key.get() : signer.key;
  if (X509_sign(certificate.get(), signing, EVP_sha256()) == 0) {
    return Failure("sign a certificate");
  }
  return TextsOf(*certificate, *key);
}

// Signs a draft of a server's or a client's certificate.
absl::StatusOr<PemPair> SignBelow(const PemPair& authority, Draft draft) {
  const auto certificates =
      ParseCertificates(authority.certificate, "the authority");
  if (!certificates.ok()) return certificates.status();
  const auto key = ParseKey(authority.key, "the authority");
  if (!key.ok()) return key.status();
  X509* issuer = certificates->front().get();
  draft.validity.until = std::min(draft.validity.until, ExpiryOf(*issuer));
  draft.extensions.insert(draft.extensions.begin(),
                          {{NID_basic_constraints, "critical,CA:FALSE"},
                           {NID_key_usage, "critical,digitalSignature"},
                           {NID_subject_key_identifier, "hash"},
                           {NID_authority_key_identifier, "keyid:always"}});
  return Sign(draft, {issuer, key->get()});
}

bool IsIpAddress(absl::string_view host) {
  const std::string text(host);
  in6_addr bytes = {};  // large enough for both
  return ::inet_pton(AF_INET, text.c_str(), &bytes) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &bytes) == 1;
}

bool IsLabel(absl::string_view label) {
  return !label.empty() && label.size() <= kLongestLabel &&
         label.front() != '-' && label.back() != '-' &&
         std::all_of(label.begin(), label.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '-';
         });
}

}  // namespace

absl::Status CheckHost(absl::string_view host) {
  if (IsIpAddress(host)) return absl::OkStatus();
  const std::vector<absl::string_view> labels = absl::StrSplit(host, '.');
  if (host.size() <= kLongestHost &&
      std::all_of(labels.begin(), labels.end(), IsLabel)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", host,
      "' is no host; give an IP address, or a name of letters, digits, '-' and "
      "'.' such as pool.example.org, without a port"));
}

absl::Status CheckClientName(absl::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && name.size() <= kLongestName &&
      absl::ascii_isalnum(static_cast<unsigned char>(name.front())) &&
      std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name, "' is no name of a client; give 1 to ", kLongestName,
      " letters, digits, '-', '_' and '.', with a letter or digit first"));
}

absl::StatusOr<PemPair> MakeAuthority(absl::string_view name,
                                      const Validity& validity) {
  return Sign({name,
               validity,
               {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                {NID_key_usage, "critical,keyCertSign,cRLSign"},
                {NID_subject_key_identifier, "hash"}}},
              {});
}

absl::StatusOr<PemPair> MakeServerPair(const PemPair& authority,
                                       const std::vector<std::string>& hosts,
                                       const Validity& validity) {
  if (hosts.empty() || hosts.size() > kMostHosts) {
    return absl::InvalidArgumentError(
        absl::StrCat("a certificate of a server has 1 to ", kMostHosts,
                     " hosts, not ", hosts.size()));
  }
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    const absl::Status status = CheckHost(host);
    if (!status.ok()) return status;
    names.push_back(absl::StrCat(IsIpAddress(host) ? "IP:" : "DNS:", host));
  }
  return SignBelow(authority,
                   {"gpupool server",
                    validity,
                    {{NID_ext_key_usage, "serverAuth"},
                     {NID_subject_alt_name, absl::StrJoin(names, ",")}}});
}

absl::StatusOr<PemPair> MakeClientPair(const PemPair& authority,
                                       const std::string& name,
                                       const Validity& validity) {
  const absl::Status status = CheckClientName(name);
  if (!status.ok()) return status;
  return SignBelow(authority,
                   {name, validity, {{NID_ext_key_usage, "clientAuth"}}});
}

}  // namespace gpupool::tls
