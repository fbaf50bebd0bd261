#include "tls/pem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>

#include "absl/strings/str_cat.h"
#include "tests/tls/test_authority.h"

namespace gpupool::tls {
namespace {

using ::testing::HasSubstr;

PemPair Made(const Validity& validity) {
  auto pair = MakeAuthority("test", validity);
  EXPECT_TRUE(pair.ok()) << pair.status();
  return *pair;
}

TEST(PemTest, ReadsEveryCertificateOfAText) {
  const std::string one = Made(Now()).certificate;
  const auto all =
      ParseCertificates(absl::StrCat("a comment\n", one, one), "f");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->size(), 2u);
}

TEST(PemTest, RefusesATextWithoutACertificate) {
  for (const char* text : {"", "hello"}) {
    const absl::Status status = ParseCertificates(text, "own.pem").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(status.message(), HasSubstr("own.pem has no certificate"));
  }
  EXPECT_FALSE(ParseCertificates(Made(Now()).key, "own.pem").ok());
}

TEST(PemTest, RefusesADamagedCertificate) {
  std::string text = Made(Now()).certificate;
  text.replace(text.size() / 2, 4, "!!!!");
  const absl::Status status = ParseCertificates(text, "own.pem").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("own.pem has a damaged certificate"));
  EXPECT_FALSE(
      ParseCertificates(absl::StrCat(Made(Now()).certificate, text), "f").ok())
      << "also behind a sound one";
}

TEST(PemTest, ReadsAKey) {
  EXPECT_TRUE(ParseKey(Made(Now()).key, "own.key").ok());
  const absl::Status status =
      ParseKey(Made(Now()).certificate, "own.key").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("own.key has no private key"));
}

TEST(PemTest, DoesNotAskForThePassphraseOfAKey) {
  const auto key = ParseKey(Made(Now()).key, "plain");
  ASSERT_TRUE(key.ok());
  const BioHandle writer(BIO_new(BIO_s_mem()));
  unsigned char pass[] = "secret";
  ASSERT_EQ(
      PEM_write_bio_PrivateKey(writer.get(), key->get(), EVP_aes_256_cbc(),
                               pass, 6, nullptr, nullptr),
      1);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(writer.get(), &bytes);
  const absl::Status status =
      ParseKey({bytes, static_cast<size_t>(size)}, "own.key").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("own.key is encrypted"));
}

TEST(PemTest, ACertificateIsValidFromItsBeginToItsEnd) {
  const absl::Time begin = absl::FromUnixSeconds(1'700'000'000);
  const absl::Time end = begin + absl::Hours(1);
  const auto parsed = ParseCertificates(Made({begin, end}).certificate, "f");
  ASSERT_TRUE(parsed.ok());
  const X509& certificate = *parsed->front();
  EXPECT_EQ(ExpiryOf(certificate), end);
  EXPECT_TRUE(CheckValidity(certificate, begin, "f").ok());
  EXPECT_TRUE(CheckValidity(certificate, end, "f").ok());
  const absl::Status early =
      CheckValidity(certificate, begin - absl::Seconds(1), "own.pem");
  EXPECT_TRUE(absl::IsFailedPrecondition(early));
  EXPECT_THAT(early.message(), HasSubstr("own.pem is valid only from 2023-11"));
  const absl::Status late =
      CheckValidity(certificate, end + absl::Seconds(1), "own.pem");
  EXPECT_TRUE(absl::IsFailedPrecondition(late));
  EXPECT_THAT(late.message(), HasSubstr("own.pem expired at 2023-11"));
}

TEST(PemTest, TheExpiryOfATextIsThatOfItsFirstCertificate) {
  const absl::Time begin = absl::FromUnixSeconds(1'700'000'000);
  const std::string first = Made({begin, begin + absl::Hours(1)}).certificate;
  EXPECT_EQ(ExpiryOf(absl::StrCat(first, Made(Now()).certificate)),
            begin + absl::Hours(1));
  EXPECT_EQ(ExpiryOf("no certificate"), absl::InfinitePast());
}

}  // namespace
}  // namespace gpupool::tls
