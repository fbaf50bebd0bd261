#include "tls/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ec.h>

#include "tests/tls/test_authority.h"
#include "tls/openssl_handles.h"
#include "tls/pem.h"

namespace gpupool::tls {
namespace {

using ::testing::HasSubstr;

CertificateHandle Parsed(const PemPair& pair) {
  auto all = ParseCertificates(pair.certificate, "f");
  EXPECT_TRUE(all.ok()) << all.status();
  return std::move(all->front());
}

// Returns OpenSSL's verdict on a certificate for this purpose: X509_V_OK, or an
// error.
int Verify(const PemPair& authority, const PemPair& pair, int purpose) {
  const StoreHandle store(X509_STORE_new());
  const CertificateHandle root = Parsed(authority);
  const CertificateHandle own = Parsed(pair);
  X509_STORE_add_cert(store.get(), root.get());
  const std::unique_ptr<X509_STORE_CTX, FreeWith<&X509_STORE_CTX_free>> context(
      X509_STORE_CTX_new());
  X509_STORE_CTX_init(context.get(), store.get(), own.get(), nullptr);
  X509_STORE_CTX_set_purpose(context.get(), purpose);
  X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_X509_STRICT);
  X509_verify_cert(context.get());
  return X509_STORE_CTX_get_error(context.get());
}

PemPair Authority() { return *MakeAuthority("test", Now()); }

TEST(AuthorityTest, ItsServersAndClientsAreVerified) {
  const PemPair authority = Authority();
  const auto server = MakeServerPair(authority, {"localhost"}, Now());
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(Verify(authority, *server, X509_PURPOSE_SSL_SERVER), X509_V_OK);
  const auto client = MakeClientPair(authority, "mia", Now());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(Verify(authority, *client, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
}

TEST(AuthorityTest, ACertificateHasOnePurpose) {
  const PemPair authority = Authority();
  EXPECT_EQ(Verify(authority, *MakeServerPair(authority, {"a"}, Now()),
                   X509_PURPOSE_SSL_CLIENT),
            X509_V_ERR_INVALID_PURPOSE);
  EXPECT_EQ(Verify(authority, *MakeClientPair(authority, "a", Now()),
                   X509_PURPOSE_SSL_SERVER),
            X509_V_ERR_INVALID_PURPOSE);
}

TEST(AuthorityTest, AnotherAuthorityOfTheSameNameDoesNotCount) {
  const auto client = MakeClientPair(Authority(), "mia", Now());
  EXPECT_NE(Verify(Authority(), *client, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
}

TEST(AuthorityTest, AClientIsNoAuthority) {
  const PemPair authority = Authority();
  const auto client = MakeClientPair(authority, "mia", Now());
  const auto below = MakeClientPair(*client, "eve", Now());
  ASSERT_TRUE(below.ok());
  EXPECT_NE(Verify(*client, *below, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
}

TEST(AuthorityTest, AServerHasItsNamesAndAddressesAndNoOthers) {
  const auto server = MakeServerPair(
      Authority(), {"pool.example.org", "10.0.0.7", "fd00::7"}, Now());
  ASSERT_TRUE(server.ok()) << server.status();
  const CertificateHandle own = Parsed(*server);
  EXPECT_EQ(X509_check_host(own.get(), "pool.example.org", 0, 0, nullptr), 1);
  EXPECT_EQ(X509_check_ip_asc(own.get(), "10.0.0.7", 0), 1);
  EXPECT_EQ(X509_check_ip_asc(own.get(), "fd00::7", 0), 1);
  EXPECT_EQ(X509_check_host(own.get(), "example.org", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_host(own.get(), "gpupool server", 0, 0, nullptr), 0);
  EXPECT_EQ(X509_check_ip_asc(own.get(), "10.0.0.8", 0), 0);
}

TEST(AuthorityTest, AClientHasItsName) {
  const auto client = MakeClientPair(Authority(), "mia-7", Now());
  ASSERT_TRUE(client.ok());
  char name[80] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(Parsed(*client).get()),
                            NID_commonName, name, sizeof(name));
  EXPECT_STREQ(name, "mia-7");
}

TEST(AuthorityTest, KeysAreOnTheCurveP256AndDiffer) {
  const auto first = MakeClientPair(Authority(), "mia", Now());
  const auto second = MakeClientPair(Authority(), "mia", Now());
  EXPECT_NE(first->key, second->key);
  const auto key = ParseKey(first->key, "f");
  ASSERT_TRUE(key.ok());
  char group[32] = {};
  EVP_PKEY_get_group_name(key->get(), group, sizeof(group), nullptr);
  EXPECT_STREQ(group, "prime256v1");
}

TEST(AuthorityTest, ACertificateEndsNoLaterThanItsAuthority) {
  const absl::Time begin = absl::FromUnixSeconds(1'700'000'000);
  const auto authority = MakeAuthority("test", {begin, begin + absl::Hours(2)});
  const auto longer =
      MakeClientPair(*authority, "mia", {begin, begin + absl::Hours(3)});
  EXPECT_EQ(ExpiryOf(longer->certificate), begin + absl::Hours(2));
  const auto shorter =
      MakeClientPair(*authority, "mia", {begin, begin + absl::Hours(1)});
  EXPECT_EQ(ExpiryOf(shorter->certificate), begin + absl::Hours(1));
}

TEST(AuthorityTest, AValidityMayReachBeyond2050) {
  const absl::Time far = absl::FromUnixSeconds(2'600'000'000);
  const auto authority = MakeAuthority("test", {absl::Now(), far});
  ASSERT_TRUE(authority.ok());
  EXPECT_EQ(ExpiryOf(authority->certificate), far);
}

TEST(AuthorityTest, RefusesHostsThatAreNone) {
  for (const std::string& host :
       {std::string(), std::string("a b"), std::string("a:80"),
        std::string("a,DNS:b"), std::string("-a"), std::string("a-"),
        std::string("a..b"), std::string("*.a"), std::string("a_b"),
        std::string("a\n"), std::string("a\0b", 3), std::string(64, 'a')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckHost(host))) << host;
    EXPECT_FALSE(MakeServerPair(Authority(), {"ok", host}, Now()).ok());
  }
  EXPECT_TRUE(CheckHost(std::string(63, 'a')).ok());
  EXPECT_TRUE(CheckHost("1.2.3.4").ok());
  EXPECT_TRUE(CheckHost("::1").ok());
  std::string longest;
  for (int i = 0; i < 127; ++i) longest += "a.";
  longest.resize(253);
  EXPECT_TRUE(CheckHost(longest).ok());
  EXPECT_FALSE(CheckHost("b" + longest).ok());
}

TEST(AuthorityTest, AServerHas1To100Hosts) {
  const std::vector<std::string> most(100, "localhost");
  EXPECT_TRUE(MakeServerPair(Authority(), most, Now()).ok());
  EXPECT_FALSE(MakeServerPair(Authority(), {}, Now()).ok());
  const std::vector<std::string> more(101, "localhost");
  EXPECT_THAT(MakeServerPair(Authority(), more, Now()).status().message(),
              HasSubstr("1 to 100 hosts, not 101"));
}

TEST(AuthorityTest, RefusesNamesThatAreNoNamesOfFiles) {
  for (const std::string& name :
       {std::string(), std::string("../x"), std::string("a/b"),
        std::string(".a"), std::string("-a"), std::string("a b"),
        std::string(65, 'a')}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckClientName(name))) << name;
    EXPECT_FALSE(MakeClientPair(Authority(), name, Now()).ok());
  }
  EXPECT_TRUE(CheckClientName(std::string(64, 'a')).ok());
  EXPECT_TRUE(CheckClientName("mia.lab_2-x").ok());
}

}  // namespace
}  // namespace gpupool::tls
