#include "tls/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/tls/test_authority.h"

namespace gpupool::tls {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TlsFilesTest, TlsIsOffWithoutACertificate) {
  EXPECT_FALSE(TlsFiles().on());
  EXPECT_TRUE(CheckComplete({}).ok());
}

TEST(TlsFilesTest, ACertificateNeedsItsKey) {
  EXPECT_TRUE(CheckComplete({"a.pem", "a.key", ""}).ok());
  EXPECT_TRUE(CheckComplete({"a.pem", "a.key", "ca.pem"}).ok());
  EXPECT_THAT(CheckComplete({"a.pem", "", ""}).message(),
              HasSubstr("tls-key is not set"));
  for (const TlsFiles& files :
       {TlsFiles{"", "a.key", ""}, TlsFiles{"", "", "ca.pem"}}) {
    const absl::Status status = CheckComplete(files);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(status.message(), HasSubstr("tls-certificate is not set"));
  }
}

TEST(TlsFilesTest, ReadsWhatAServerNeeds) {
  TestAuthority authority;
  TlsFiles files = authority.Server("localhost");
  auto pem = ReadServerFiles(files, absl::Now());
  ASSERT_TRUE(pem.ok()) << pem.status();
  EXPECT_EQ(pem->own.certificate, TextOfFile(files.certificate));
  EXPECT_EQ(pem->own.key, TextOfFile(files.key));
  EXPECT_EQ(pem->client_authorities, "");
  files.client_ca = authority.ca();
  pem = ReadServerFiles(files, absl::Now());
  ASSERT_TRUE(pem.ok()) << pem.status();
  EXPECT_EQ(pem->client_authorities, authority.own().certificate);
}

TEST(TlsFilesTest, RefusesAKeyThatOthersMayRead) {
  TestAuthority authority;
  const TlsFiles files = authority.Server("localhost");
  for (const mode_t mode : {0640u, 0604u, 0620u, 0610u}) {
    ASSERT_EQ(::chmod(files.key.c_str(), mode), 0);
    const absl::Status status =
        ReadPair(files.certificate, files.key, absl::Now()).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("chmod 600 " + files.key));
  }
  ASSERT_EQ(::chmod(files.key.c_str(), 0400), 0);
  EXPECT_TRUE(ReadPair(files.certificate, files.key, absl::Now()).ok());
  ASSERT_EQ(::chmod(files.certificate.c_str(), 0644), 0);
  EXPECT_TRUE(ReadPair(files.certificate, files.key, absl::Now()).ok())
      << "a certificate is public";
}

TEST(TlsFilesTest, RefusesAKeyOfAnotherCertificate) {
  TestAuthority authority;
  const TlsFiles one = authority.Server("one");
  const TlsFiles two = authority.Server("two");
  const absl::Status status =
      ReadPair(one.certificate, two.key, absl::Now()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(one.certificate), HasSubstr(two.key),
                    HasSubstr("does not belong")));
}

TEST(TlsFilesTest, RefusesAnExpiredCertificate) {
  TestAuthority authority;
  const TlsFiles files = authority.Server("localhost", Past());
  const absl::Status status = ReadServerFiles(files, absl::Now()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr(files.certificate), HasSubstr("expired")));
}

TEST(TlsFilesTest, OneValidAuthorityIsEnough) {
  TestAuthority authority;
  const std::string old = MakeAuthority("old", Past())->certificate;
  const std::string file = authority.folder() / "bundle.pem";
  WritePrivateFile(file, old + authority.own().certificate);
  EXPECT_TRUE(ReadAuthorities(file, absl::Now()).ok());
  WritePrivateFile(file, old);
  EXPECT_THAT(ReadAuthorities(file, absl::Now()).status().message(),
              AllOf(HasSubstr(file), HasSubstr("expired")));
}

TEST(TlsFilesTest, NamesAFileThatCannotBeRead) {
  TestAuthority authority;
  const TlsFiles files = authority.Server("localhost");
  const std::string missing = authority.folder() / "missing";
  absl::Status status = ReadPair(missing, files.key, absl::Now()).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(missing));
  status = ReadPair(files.certificate, missing, absl::Now()).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(status.message(), HasSubstr(missing));
  EXPECT_TRUE(absl::IsNotFound(
      ReadServerFiles({files.certificate, files.key, missing}, absl::Now())
          .status()));
}

TEST(TlsFilesTest, RefusesWhatIsNoRegularFile) {
  TestAuthority authority;
  const std::string pipe = authority.folder() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, authority.folder().path()}) {
    const absl::Status status = ReadAuthorities(path, absl::Now()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_THAT(status.message(), HasSubstr("is no regular file"));
  }
}

TEST(TlsFilesTest, RefusesAFileThatIsTooLarge) {
  TestAuthority authority;
  const std::string file = authority.folder() / "large";
  const std::string& sound = authority.own().certificate;
  const size_t most = 1 << 20;
  WritePrivateFile(file, sound + std::string(most - sound.size(), '\n'));
  EXPECT_TRUE(ReadAuthorities(file, absl::Now()).ok());
  WritePrivateFile(file, sound + std::string(most - sound.size() + 1, '\n'));
  EXPECT_THAT(ReadAuthorities(file, absl::Now()).status().message(),
              HasSubstr("has 1048577 bytes"));
}

}  // namespace
}  // namespace gpupool::tls
